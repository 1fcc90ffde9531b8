// Instructions of a whole warp: matrices and products, by the layouts that the PTX ISA gives for fragments.
#include <cmath>
#include <cstring>

#include "testing/ptx/lanes.h"
#include "testing/ptx/shared_row.h"

namespace ortconv::cuda::ptx {
namespace {

// Four matrices of 8 rows of 8 elements of 16 bits. Lanes 8 * m to 8 * m + 7 have the addresses of the rows of matrix
// m. Lane l gets, of each, elements 2 * (l % 4) and the next of row l / 4.
void load_matrices(Warp& warp, const Instruction& i, uint32_t lanes) {
  uint64_t addresses[kWarpLanes];
  warp.addresses(i, 4, 0, lanes, addresses);
  uint16_t elements[4][8][8];
  bool known[4][8][8];
  for (int lane = 0; lane < kWarpLanes; ++lane) {
    load_shared_row(warp, lane, addresses[lane], elements[lane / 8][lane % 8], known[lane / 8][lane % 8]);
  }
  for (int m = 0; m < 4; ++m) {
    uint32_t results[kWarpLanes], defined = 0;
    for (int lane = 0; lane < kWarpLanes; ++lane) {
      const int line = lane / 4, first = lane % 4 * 2;
      results[lane] = elements[m][line][first] | static_cast<uint32_t>(elements[m][line][first + 1]) << 16;
      const bool both = known[m][line][first] && known[m][line][first + 1];
      defined |= static_cast<uint32_t>(both) << lane;
    }
    warp.set(i.operands[m], results, lanes, defined);
  }
}

enum class Element { kFloat16, kBfloat16, kTf32 };

// What a register of a fragment holds at `index` of its elements.
float element_of(const Warp& warp, Element kind, const Operand& operand, int index, int lane) {
  uint32_t bits = warp.values<uint32_t>(operand)[lane];
  const bool known = (warp.defined(operand) >> lane & 1) != 0;
  if (kind != Element::kTf32) bits = index == 0 ? bits & 0xffff : bits >> 16;
  if (kind == Element::kFloat16) return half_to_float(static_cast<uint16_t>(bits));
  if (kind == Element::kBfloat16) bits <<= 16;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  if (kind == Element::kTf32 && known && !std::isnan(value) && (bits & 0x1fff) != 0) {
    warp.stop(lane, "an operand that is no TF32 number");
  }
  return value;
}

// d[16][8] = a[16][kDepth] * b[kDepth][8] + c[16][8]. With g = lane / 4 and t = lane % 4, a lane has
//   of a: register r is row g, or g + 8 where r is odd; its elements begin at t * (elements of a register), in the
//   first
//         half of the depth where r < 2;
//   of b: register r is column g, from t * (elements of a register) in half r of the depth;
//   of c: elements 0 and 1 are row g, 2 and 3 row g + 8, columns 2 * t and 2 * t + 1.
// Where a has two registers, and b one, there is only one half. The sum is formed exactly and rounded once; the
// hardware's own order of summing and rounding is not specified.
template <Element kKind, int kDepth>
void multiply(Warp& warp, const Instruction& i, uint32_t lanes) {
  constexpr int kPerRegister = kKind == Element::kTf32 ? 1 : 2;
  constexpr int kHalves = kDepth / (4 * kPerRegister), kA = 2 * kHalves, kB = kHalves;
  const Operand *const d = i.operands, *const a = d + 4, *const b = a + kA, *const c = b + kB;
  double left[16][kDepth], right[kDepth][8];
  bool known_left[16] = {}, known_right[8] = {};
  std::memset(known_left, 1, sizeof known_left);
  std::memset(known_right, 1, sizeof known_right);
  for (int lane = 0; lane < kWarpLanes; ++lane) {
    const int g = lane / 4, t = lane % 4;
    for (int r = 0; r < kA; ++r) {
      const int row = r % 2 == 0 ? g : g + 8, first = t * kPerRegister + r / 2 * (kDepth / kHalves);
      known_left[row] = known_left[row] && (warp.defined(a[r]) >> lane & 1) != 0;
      for (int e = 0; e < kPerRegister; ++e) {
        left[row][first + e] = element_of(warp, kKind, a[r], e, lane);
      }
    }
    for (int r = 0; r < kB; ++r) {
      const int first = t * kPerRegister + r * (kDepth / kHalves);
      known_right[g] = known_right[g] && (warp.defined(b[r]) >> lane & 1) != 0;
      for (int e = 0; e < kPerRegister; ++e) {
        right[first + e][g] = element_of(warp, kKind, b[r], e, lane);
      }
    }
  }
  for (int r = 0; r < 4; ++r) {
    float results[kWarpLanes];
    uint32_t defined = 0;
    for (int lane = 0; lane < kWarpLanes; ++lane) {
      const int row = lane / 4 + r / 2 * 8, column = lane % 4 * 2 + r % 2;
      double sum = warp.values<float>(c[r])[lane];
      for (int k = 0; k < kDepth; ++k) sum += left[row][k] * right[k][column];
      results[lane] = static_cast<float>(sum);
      const bool known = known_left[row] && known_right[column] && (warp.defined(c[r]) >> lane & 1) != 0;
      defined |= static_cast<uint32_t>(known) << lane;
    }
    warp.set(d[r], results, lanes, defined);
  }
}

// The element at `index` of a register of integers of 8 bits, as a number modulo 2^32.
uint32_t byte_of(const Warp& warp, bool is_signed, const Operand& operand, int index, int lane) {
  const uint32_t byte = warp.values<uint32_t>(operand)[lane] >> (8 * index) & 0xff;
  return is_signed && byte >= 0x80 ? byte - 0x100 : byte;
}

// d = a * b + c of integers, modulo 2^32; registers of a and b have four elements each. With kRows = 16 and kDepth = 32
// they are where those of `multiply` are. With 8 and 16 a and b have one register, of row or column g, and c the first
// two.
template <bool kSigned, int kRows, int kDepth>
void multiply_integers(Warp& warp, const Instruction& i, uint32_t lanes) {
  constexpr int kParts = kRows / 8, kHalves = kDepth / 16, kA = kParts * kHalves, kB = kHalves, kC = 2 * kParts;
  const Operand *const d = i.operands, *const a = d + kC, *const b = a + kA, *const c = b + kB;
  uint32_t left[kRows][kDepth], right[kDepth][8];
  bool known_left[kRows], known_right[8];
  std::memset(known_left, 1, sizeof known_left);
  std::memset(known_right, 1, sizeof known_right);
  for (int lane = 0; lane < kWarpLanes; ++lane) {
    const int g = lane / 4, first = lane % 4 * 4;
    for (int r = 0; r < kA; ++r) {
      const int row = g + r % kParts * 8;
      known_left[row] = known_left[row] && (warp.defined(a[r]) >> lane & 1) != 0;
      for (int e = 0; e < 4; ++e) left[row][first + e + r / kParts * 16] = byte_of(warp, true, a[r], e, lane);
    }
    for (int r = 0; r < kB; ++r) {
      known_right[g] = known_right[g] && (warp.defined(b[r]) >> lane & 1) != 0;
      for (int e = 0; e < 4; ++e) right[first + e + r * 16][g] = byte_of(warp, kSigned, b[r], e, lane);
    }
  }
  for (int r = 0; r < kC; ++r) {
    uint32_t results[kWarpLanes], defined = 0;
    for (int lane = 0; lane < kWarpLanes; ++lane) {
      const int row = lane / 4 + r / 2 * 8, column = lane % 4 * 2 + r % 2;
      results[lane] = warp.values<uint32_t>(c[r])[lane];
      for (int k = 0; k < kDepth; ++k) results[lane] += left[row][k] * right[k][column];
      const bool known = known_left[row] && known_right[column] && (warp.defined(c[r]) >> lane & 1) != 0;
      defined |= static_cast<uint32_t>(known) << lane;
    }
    warp.set(d[r], results, lanes, defined);
  }
}

template <bool kSigned>
void add_integer_products(const std::string& type, Operations* all) {
  const std::string four = "{w,w,w,w},", two = "{w,w},", one = "{w},";
  (*all)["mma.sync.aligned.m16n8k32.row.col.s32.s8." + type + ".s32"] = {
      four + four + two + "{w,w,w,w}", multiply_integers<kSigned, 16, 32>, Kind::kCollective};
  (*all)["mma.sync.aligned.m8n8k16.row.col.s32.s8." + type + ".s32"] = {
      two + one + one + "{w,w}", multiply_integers<kSigned, 8, 16>, Kind::kCollective};
}

// Each lane gets the number of the lane whose own differs from its by the second operand.
void exchange(Warp& warp, const Instruction& i, uint32_t lanes) {
  const uint32_t *const numbers = warp.values<uint32_t>(i.operands[1]), *const mask =
                                                                            warp.values<uint32_t>(i.operands[2]);
  const uint32_t *const segments = warp.values<uint32_t>(i.operands[3]), *const taking_part =
                                                                             warp.values<uint32_t>(i.operands[4]);
  for (int operand = 2; operand <= 4; ++operand) warp.expect_defined(i.operands[operand], lanes, "where to exchange");
  uint32_t results[kWarpLanes], defined = 0;
  for (int lane = 0; lane < kWarpLanes; ++lane) {
    if (segments[lane] != 31 || taking_part[lane] != 0xffffffffu) warp.stop(lane, "an exchange among fewer lanes");
    const uint32_t from = static_cast<uint32_t>(lane) ^ (mask[lane] & 31);
    results[lane] = numbers[from];
    defined |= (warp.defined(i.operands[1]) >> from & 1) << lane;
  }
  warp.set(i.operands[0], results, lanes, defined);
}

}  // namespace

void add_warp_operations(Operations* all) {
  auto& operations = *all;
  const std::string four = "{w,w,w,w},", two = "{w,w},", one = "{w},";
  operations["shfl.sync.bfly.b32"] = {"w,w,w,w,w", exchange, Kind::kCollective};
  operations["ldmatrix.sync.aligned.m8n8.x4.shared.b16"] = {four + "[a]", load_matrices, Kind::kCollective};
  operations["mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"] = {
      four + four + two + "{w,w,w,w}", multiply<Element::kFloat16, 16>, Kind::kCollective};
  operations["mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"] = {
      four + four + two + "{w,w,w,w}", multiply<Element::kBfloat16, 16>, Kind::kCollective};
  operations["mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32"] = {four + two + one + "{w,w,w,w}",
                                                                    multiply<Element::kFloat16, 8>, Kind::kCollective};
  operations["mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32"] = {four + four + two + "{w,w,w,w}",
                                                                      multiply<Element::kTf32, 8>, Kind::kCollective};
  add_integer_products<true>("s8", all);
  add_integer_products<false>("u8", all);
}

}  // namespace ortconv::cuda::ptx

// Integer arithmetic, shifts and logic.
#include <limits>
#include <type_traits>

#include "testing/ptx/lanes.h"

namespace ortconv::cuda::ptx {
namespace {

// Results are those of the low bits, as the hardware has them.
ORTCONV_PTX_FUNCTION(Add, (T a, T b), static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b)));
ORTCONV_PTX_FUNCTION(Subtract, (T a, T b), static_cast<T>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b)));
ORTCONV_PTX_FUNCTION(MultiplyLow, (T a, T b), static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b)));
ORTCONV_PTX_FUNCTION(MultiplyAddLow, (T a, T b, T c),
                     static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b) + static_cast<uint64_t>(c)));
ORTCONV_PTX_FUNCTION(Negate, (T a), static_cast<T>(uint64_t{0} - static_cast<uint64_t>(a)));
ORTCONV_PTX_FUNCTION(Minimum, (T a, T b), b < a ? b : a);
ORTCONV_PTX_FUNCTION(Maximum, (T a, T b), a < b ? b : a);
ORTCONV_PTX_FUNCTION(And, (T a, T b), static_cast<T>(a& b));
ORTCONV_PTX_FUNCTION(Or, (T a, T b), static_cast<T>(a | b));
ORTCONV_PTX_FUNCTION(Xor, (T a, T b), static_cast<T>(a ^ b));
ORTCONV_PTX_FUNCTION(Not, (T a), static_cast<T>(~a));

// To a result of twice the width.
template <class D>
struct MultiplyWide {
  template <class T>
  D operator()(T a, T b) const {
    return static_cast<D>(a) * static_cast<D>(b);
  }
};

struct MultiplyHigh {
  uint32_t operator()(uint32_t a, uint32_t b) const { return static_cast<uint32_t>(uint64_t{a} * b >> 32); }
  int32_t operator()(int32_t a, int32_t b) const { return static_cast<int32_t>(int64_t{a} * b >> 32); }
};

// Shifts by the width or more leave zeros, or the sign.
struct ShiftLeft {
  template <class T>
  T operator()(T a, uint32_t by) const {
    return by >= sizeof(T) * 8 ? T{0} : static_cast<T>(a << by);
  }
};
struct ShiftRight {
  template <class T>
  T operator()(T a, uint32_t by) const {
    constexpr uint32_t kBits = sizeof(T) * 8;
    if (by >= kBits) return std::is_signed_v<T> ? static_cast<T>(a >> (kBits - 1)) : T{0};
    return static_cast<T>(a >> by);
  }
};

// Each byte of the result is one of the eight of b and a, or eight times its sign.
struct Permute {
  uint32_t operator()(uint32_t a, uint32_t b, uint32_t selector) const {
    const uint64_t bytes = a | static_cast<uint64_t>(b) << 32;
    uint32_t result = 0;
    for (int i = 0; i < 4; ++i) {
      const uint32_t selected = selector >> 4 * i & 15;
      uint32_t byte = static_cast<uint32_t>(bytes >> (selected & 7) * 8) & 0xff;
      if ((selected & 8) != 0) byte = (byte & 0x80) != 0 ? 0xff : 0;
      result |= byte << 8 * i;
    }
    return result;
  }
};

template <class T, bool kRemainder>
void divide(Warp& warp, const Instruction& i, uint32_t lanes) {
  const T* const a = warp.values<T>(i.operands[1]);
  const T* const b = warp.values<T>(i.operands[2]);
  const uint32_t defined = warp.defined(i.operands[1]) & warp.defined(i.operands[2]);
  T result[kWarpLanes] = {};
  for (int lane = 0; lane < kWarpLanes; ++lane) {
    if ((lanes & defined & 1u << lane) == 0) continue;
    if (b[lane] == 0) warp.stop(lane, "a division by zero");
    if (std::is_signed_v<T> && a[lane] == std::numeric_limits<T>::min() && b[lane] == static_cast<T>(-1)) {
      warp.stop(lane, "a division that overflows");
    }
    result[lane] = kRemainder ? static_cast<T>(a[lane] % b[lane]) : static_cast<T>(a[lane] / b[lane]);
  }
  warp.set(i.operands[0], result, lanes, defined);
}

// d, of a into b at position c, so many bits.
void insert_bits(Warp& warp, const Instruction& i, uint32_t lanes) {
  const Operand* const o = i.operands;
  const uint32_t *const a = warp.values<uint32_t>(o[1]), *const b = warp.values<uint32_t>(o[2]);
  const uint32_t *const at = warp.values<uint32_t>(o[3]), *const count = warp.values<uint32_t>(o[4]);
  uint32_t result[kWarpLanes], defined = kAllLanes;
  for (int operand = 1; operand <= 4; ++operand) defined &= warp.defined(o[operand]);
  for (int lane = 0; lane < kWarpLanes; ++lane) {
    const uint64_t first = at[lane] & 0xff, end = first + (count[lane] & 0xff);
    const auto ones_below = [](uint64_t bit) { return bit >= 32 ? ~0u : (1u << bit) - 1; };
    const uint32_t mask = ones_below(end) & ~ones_below(first);
    const uint32_t moved = first >= 32 ? 0 : a[lane] << first;
    result[lane] = (moved & mask) | (b[lane] & ~mask);
  }
  warp.set(o[0], result, lanes, defined);
}

template <class T>
void add_arithmetic(const std::string& type, char t, Operations* all) {
  const std::string two = {t, ',', t}, three = two + ',' + t, four = three + ',' + t;
  auto& operations = *all;
  operations["add." + type] = {three, binary<T, T, T, Add>};
  operations["sub." + type] = {three, binary<T, T, T, Subtract>};
  operations["mul.lo." + type] = {three, binary<T, T, T, MultiplyLow>};
  operations["mad.lo." + type] = {four, ternary<T, T, T, T, MultiplyAddLow>};
  operations["div." + type] = {three, divide<T, false>};
  operations["rem." + type] = {three, divide<T, true>};
  operations["min." + type] = {three, binary<T, T, T, Minimum>};
  operations["max." + type] = {three, binary<T, T, T, Maximum>};
  operations["shr." + type] = {two + ",w", binary<T, T, uint32_t, ShiftRight>};
  if (std::is_signed_v<T>) operations["neg." + type] = {two, unary<T, T, Negate>};
}

template <class T>
void add_logic(const std::string& bits, char t, Operations* all) {
  const std::string two = {t, ',', t}, three = two + ',' + t;
  auto& operations = *all;
  operations["and.b" + bits] = {three, binary<T, T, T, And>};
  operations["or.b" + bits] = {three, binary<T, T, T, Or>};
  operations["xor.b" + bits] = {three, binary<T, T, T, Xor>};
  operations["not.b" + bits] = {two, unary<T, T, Not>};
  operations["shl.b" + bits] = {two + ",w", binary<T, T, uint32_t, ShiftLeft>};
}

}  // namespace

void add_integer_operations(Operations* all) {
  add_logic<uint16_t>("16", 'h', all);
  add_logic<uint32_t>("32", 'w', all);
  add_logic<uint64_t>("64", 'd', all);
  add_arithmetic<uint16_t>("u16", 'h', all);
  add_arithmetic<int16_t>("s16", 'h', all);
  add_arithmetic<uint32_t>("u32", 'w', all);
  add_arithmetic<int32_t>("s32", 'w', all);
  add_arithmetic<uint64_t>("u64", 'd', all);
  add_arithmetic<int64_t>("s64", 'd', all);
  auto& operations = *all;
  operations["mul.hi.u32"] = {"w,w,w", binary<uint32_t, uint32_t, uint32_t, MultiplyHigh>};
  operations["mul.hi.s32"] = {"w,w,w", binary<int32_t, int32_t, int32_t, MultiplyHigh>};
  operations["mul.wide.u16"] = {"w,h,h", binary<uint32_t, uint16_t, uint16_t, MultiplyWide<uint32_t>>};
  operations["mul.wide.s16"] = {"w,h,h", binary<int32_t, int16_t, int16_t, MultiplyWide<int32_t>>};
  operations["mul.wide.u32"] = {"d,w,w", binary<uint64_t, uint32_t, uint32_t, MultiplyWide<uint64_t>>};
  operations["mul.wide.s32"] = {"d,w,w", binary<int64_t, int32_t, int32_t, MultiplyWide<int64_t>>};
  operations["prmt.b32"] = {"w,w,w,w", ternary<uint32_t, uint32_t, uint32_t, uint32_t, Permute>};
  operations["bfi.b32"] = {"w,w,w,w,w", insert_bits};
}

}  // namespace ortconv::cuda::ptx

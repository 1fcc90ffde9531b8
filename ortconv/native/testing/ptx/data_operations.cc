// Moves, conversions of integers, comparisons, predicates and selections; and the flow of control.
#include "testing/ptx/lanes.h"

namespace ortconv::cuda::ptx {
namespace {

ORTCONV_PTX_FUNCTION(Same, (T a), a);
ORTCONV_PTX_FUNCTION(Equal, (T a, T b), a == b);
ORTCONV_PTX_FUNCTION(NotEqual, (T a, T b), a != b);
ORTCONV_PTX_FUNCTION(Less, (T a, T b), a < b);
ORTCONV_PTX_FUNCTION(LessEqual, (T a, T b), a <= b);
ORTCONV_PTX_FUNCTION(Greater, (T a, T b), a > b);
ORTCONV_PTX_FUNCTION(GreaterEqual, (T a, T b), a >= b);

template <class D>
struct To {
  template <class T>
  D operator()(T a) const {
    return static_cast<D>(a);
  }
};

// The low part of a number, as a signed one.
template <class Low>
struct SignedLow {
  template <class T>
  T operator()(T a) const {
    return static_cast<Low>(a);
  }
};

// The register of a pair is the first in the low half.
template <class D, class T>
struct Joined {
  D operator()(T low, T high) const { return static_cast<D>(low | static_cast<D>(high) << (sizeof(T) * 8)); }
};

template <class T, class S>
void split(Warp& warp, const Instruction& i, uint32_t lanes) {
  const T* const from = warp.values<T>(i.operands[2]);
  for (int part = 0; part < 2; ++part) {
    S result[kWarpLanes];
    for (int lane = 0; lane < kWarpLanes; ++lane) result[lane] = static_cast<S>(from[lane] >> part * sizeof(S) * 8);
    warp.set(i.operands[part], result, lanes, warp.defined(i.operands[2]));
  }
}

// What was not selected does not matter.
template <class T>
void select(Warp& warp, const Instruction& i, uint32_t lanes) {
  const Operand* const o = i.operands;
  const T *const a = warp.values<T>(o[1]), *const b = warp.values<T>(o[2]);
  const uint32_t first = warp.predicate(o[3]);
  T result[kWarpLanes];
  for (int lane = 0; lane < kWarpLanes; ++lane) result[lane] = (first >> lane & 1) != 0 ? a[lane] : b[lane];
  const uint32_t defined = (first & warp.defined(o[1])) | (~first & warp.defined(o[2]));
  warp.set(o[0], result, lanes, defined & warp.defined(o[3]));
}

// One operand may decide alone.
void and_predicates(Warp& warp, const Instruction& i, uint32_t lanes) {
  const uint32_t a = warp.predicate(i.operands[1]), b = warp.predicate(i.operands[2]);
  const uint32_t known_a = warp.defined(i.operands[1]), known_b = warp.defined(i.operands[2]);
  warp.set_predicate(i.operands[0], a & b, lanes, (known_a & known_b) | (known_a & ~a) | (known_b & ~b));
}
void or_predicates(Warp& warp, const Instruction& i, uint32_t lanes) {
  const uint32_t a = warp.predicate(i.operands[1]), b = warp.predicate(i.operands[2]);
  const uint32_t known_a = warp.defined(i.operands[1]), known_b = warp.defined(i.operands[2]);
  warp.set_predicate(i.operands[0], a | b, lanes, (known_a & known_b) | (known_a & a) | (known_b & b));
}
void xor_predicates(Warp& warp, const Instruction& i, uint32_t lanes) {
  const uint32_t result = warp.predicate(i.operands[1]) ^ warp.predicate(i.operands[2]);
  warp.set_predicate(i.operands[0], result, lanes, warp.defined(i.operands[1]) & warp.defined(i.operands[2]));
}
void not_predicate(Warp& warp, const Instruction& i, uint32_t lanes) {
  warp.set_predicate(i.operands[0], ~warp.predicate(i.operands[1]), lanes, warp.defined(i.operands[1]));
}
void move_predicate(Warp& warp, const Instruction& i, uint32_t lanes) {
  warp.set_predicate(i.operands[0], warp.predicate(i.operands[1]), lanes, warp.defined(i.operands[1]));
}

void trap(Warp& warp, const Instruction&, uint32_t lanes) {
  int lane = 0;
  while ((lanes >> lane & 1) == 0) ++lane;
  warp.stop(lane, "reached");
}

template <class T>
void add_comparisons(const std::string& type, char t, Operations* all) {
  const std::string operands = {'p', ',', t, ',', t};
  auto& operations = *all;
  operations["setp.eq." + type] = {operands, compare<T, Equal>};
  operations["setp.ne." + type] = {operands, compare<T, NotEqual>};
  operations["setp.lt." + type] = {operands, compare<T, Less>};
  operations["setp.le." + type] = {operands, compare<T, LessEqual>};
  operations["setp.gt." + type] = {operands, compare<T, Greater>};
  operations["setp.ge." + type] = {operands, compare<T, GreaterEqual>};
}

template <class T>
void add_moves(const std::string& type, char t, Operations* all) {
  const std::string two = {t, ',', t};
  (*all)["mov." + type] = {two, unary<T, T, Same>};
  (*all)["selp." + type] = {two + ',' + t + ",p", select<T>};
}

}  // namespace

void add_data_operations(Operations* all) {
  auto& operations = *all;
  for (const char* type : {"b16", "u16", "s16"}) add_moves<uint16_t>(type, 'h', all);
  for (const char* type : {"b32", "u32", "s32", "f32"}) add_moves<uint32_t>(type, 'w', all);
  for (const char* type : {"b64", "u64", "s64", "f64"}) add_moves<uint64_t>(type, 'd', all);
  operations["mov.pred"] = {"p,p", move_predicate};
  operations["cvta.to.global.u64"] = {"d,d", unary<uint64_t, uint64_t, Same>};
  operations["mov.b32 }"] = {"w,{h,h}", binary<uint32_t, uint16_t, uint16_t, Joined<uint32_t, uint16_t>>};
  operations["mov.b64 }"] = {"d,{w,w}", binary<uint64_t, uint32_t, uint32_t, Joined<uint64_t, uint32_t>>};
  operations["mov.b32 {"] = {"{h,h},w", split<uint32_t, uint16_t>};
  operations["mov.b64 {"] = {"{w,w},d", split<uint64_t, uint32_t>};

  operations["cvt.s64.s32"] = {"d,w", unary<int64_t, int32_t, To<int64_t>>};
  operations["cvt.u64.u32"] = {"d,w", unary<uint64_t, uint32_t, To<uint64_t>>};
  operations["cvt.u32.u64"] = {"w,d", unary<uint32_t, uint64_t, To<uint32_t>>};
  operations["cvt.u32.u16"] = {"w,h", unary<uint32_t, uint16_t, To<uint32_t>>};
  operations["cvt.s32.s16"] = {"w,h", unary<int32_t, int16_t, To<int32_t>>};
  operations["cvt.u16.u32"] = {"h,w", unary<uint16_t, uint32_t, To<uint16_t>>};

  // Of a register that is too wide, the low part counts.
  operations["cvt.s64.s32 d,d"] = {"d,d", unary<int64_t, int64_t, SignedLow<int32_t>>};
  operations["cvt.s32.s8"] = {"w,w", unary<int32_t, int32_t, SignedLow<int8_t>>};
  operations["cvt.s16.s8"] = {"h,h", unary<int16_t, int16_t, SignedLow<int8_t>>};

  add_comparisons<int16_t>("s16", 'h', all);
  add_comparisons<uint16_t>("u16", 'h', all);
  add_comparisons<int32_t>("s32", 'w', all);
  add_comparisons<uint32_t>("u32", 'w', all);
  add_comparisons<int64_t>("s64", 'd', all);
  add_comparisons<uint64_t>("u64", 'd', all);
  operations["setp.eq.b16"] = operations["setp.eq.u16"];
  operations["setp.ne.b16"] = operations["setp.ne.u16"];
  operations["setp.eq.b32"] = operations["setp.eq.u32"];
  operations["setp.ne.b32"] = operations["setp.ne.u32"];
  operations["setp.eq.b64"] = operations["setp.eq.u64"];
  operations["setp.ne.b64"] = operations["setp.ne.u64"];

  operations["and.pred"] = {"p,p,p", and_predicates};
  operations["or.pred"] = {"p,p,p", or_predicates};
  operations["xor.pred"] = {"p,p,p", xor_predicates};
  operations["not.pred"] = {"p,p", not_predicate};

  operations["bra"] = {"L", nullptr, Kind::kBranch};
  operations["bra.uni"] = {"L", nullptr, Kind::kBranch};
  operations["trap"] = {"", trap};
  operations["ret"] = {"", nullptr, Kind::kReturn};
  operations["bar.sync"] = {"n", nullptr, Kind::kBarrier};
}

}  // namespace ortconv::cuda::ptx

// Arithmetic of floats, rounded to nearest even, with subnormals; and the conversions between them.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "testing/ptx/lanes.h"

namespace ortconv::cuda::ptx {
namespace {

ORTCONV_PTX_FUNCTION(Add, (T a, T b), a + b);
ORTCONV_PTX_FUNCTION(Subtract, (T a, T b), a - b);
ORTCONV_PTX_FUNCTION(Multiply, (T a, T b), a* b);
ORTCONV_PTX_FUNCTION(Divide, (T a, T b), a / b);
ORTCONV_PTX_FUNCTION(MultiplyAdd, (T a, T b, T c), std::fma(a, b, c));
ORTCONV_PTX_FUNCTION(Negate, (T a), -a);
ORTCONV_PTX_FUNCTION(Equal, (T a, T b), a == b);
ORTCONV_PTX_FUNCTION(NotEqual, (T a, T b), a<b || a> b);
ORTCONV_PTX_FUNCTION(Less, (T a, T b), a < b);
ORTCONV_PTX_FUNCTION(LessEqual, (T a, T b), a <= b);
ORTCONV_PTX_FUNCTION(Greater, (T a, T b), a > b);
ORTCONV_PTX_FUNCTION(GreaterEqual, (T a, T b), a >= b);
ORTCONV_PTX_FUNCTION(Unordered, (T a, T b), std::isnan(a) || std::isnan(b));
ORTCONV_PTX_FUNCTION(Ordered, (T a, T b), !std::isnan(a) && !std::isnan(b));
ORTCONV_PTX_FUNCTION(NotEqualOrNan, (T a, T b), !(a == b));

struct IntegerToFloat {
  template <class T>
  float operator()(T a) const {
    return static_cast<float>(a);
  }
};
// Of ties to the even one; NaN becomes 0, and what an integer does not hold the nearest that it does.
struct FloatToInteger {
  int32_t operator()(float value) const {
    if (std::isnan(value)) return 0;
    constexpr double kLeast = std::numeric_limits<int32_t>::min(), kMost = std::numeric_limits<int32_t>::max();
    return static_cast<int32_t>(std::clamp(std::nearbyint(static_cast<double>(value)), kLeast, kMost));
  }
};
struct DoubleToFloat {
  float operator()(double a) const { return static_cast<float>(a); }
};
struct FloatToDouble {
  double operator()(float a) const { return a; }
};
struct HalfToFloat {
  float operator()(uint16_t bits) const { return half_to_float(bits); }
};
struct FloatToHalf {
  uint16_t operator()(float value) const { return float_to_half(value); }
};

// To so many bits behind the point, by a function that rounds to a whole number.
float rounded(float value, int bits, double (*round)(double)) {
  if (value == 0 || std::isinf(value)) return value;
  const double unit = std::ldexp(1.0, std::max(std::ilogb(value), -126) - bits);
  return static_cast<float>(round(value / unit) * unit);
}

uint32_t bits_of(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

// Ties go away from zero.
struct FloatToTf32 {
  uint32_t operator()(float value) const {
    return std::isnan(value) ? 0x7fffffffu : bits_of(rounded(value, 10, std::round));
  }
};

// Ties go to the even one.
struct FloatToBfloat {
  uint16_t operator()(float value) const {
    return std::isnan(value) ? 0x7fff : static_cast<uint16_t>(bits_of(rounded(value, 7, std::nearbyint)) >> 16);
  }
};

float bfloat_to_float(uint16_t bits) {
  const uint32_t wide = static_cast<uint32_t>(bits) << 16;
  float value;
  std::memcpy(&value, &wide, sizeof value);
  return value;
}

// Both halves of a word, from sums and products in double. They are rounded to float first, which changes nothing where
// float holds them, as it does products and what kernels subtract.
template <class Narrow>
uint32_t of_both(double low, double high, Narrow narrow) {
  return narrow(static_cast<float>(low)) | static_cast<uint32_t>(narrow(static_cast<float>(high))) << 16;
}
double low_half(uint32_t word) { return half_to_float(static_cast<uint16_t>(word)); }
double high_half(uint32_t word) { return half_to_float(static_cast<uint16_t>(word >> 16)); }
double low_bfloat(uint32_t word) { return bfloat_to_float(static_cast<uint16_t>(word)); }
double high_bfloat(uint32_t word) { return bfloat_to_float(static_cast<uint16_t>(word >> 16)); }

struct SubtractHalves {
  uint32_t operator()(uint32_t a, uint32_t b) const {
    return of_both(low_half(a) - low_half(b), high_half(a) - high_half(b), FloatToHalf());
  }
};
struct MultiplyHalves {
  uint32_t operator()(uint32_t a, uint32_t b) const {
    return of_both(low_half(a) * low_half(b), high_half(a) * high_half(b), FloatToHalf());
  }
};
struct MultiplyAddBfloats {
  uint32_t operator()(uint32_t a, uint32_t b, uint32_t c) const {
    return of_both(std::fma(low_bfloat(a), low_bfloat(b), low_bfloat(c)),
                   std::fma(high_bfloat(a), high_bfloat(b), high_bfloat(c)), FloatToBfloat());
  }
};

}  // namespace

float half_to_float(uint16_t bits) {
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  float value = exponent == 31  ? (fraction != 0 ? std::numeric_limits<float>::quiet_NaN() : INFINITY)
                : exponent == 0 ? std::ldexp(static_cast<float>(fraction), -24)
                                : std::ldexp(static_cast<float>(fraction + 1024), exponent - 25);
  return std::copysign(value, (bits & 0x8000) != 0 ? -1.0f : 1.0f);
}

uint16_t float_to_half(float value) {
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const double size = std::fabs(value);
  if (std::isnan(value)) return 0x7fff;
  if (size >= 65520) return sign | 0x7c00;
  if (size < std::ldexp(1.0, -14)) return sign | static_cast<uint16_t>(std::nearbyint(std::ldexp(size, 24)));
  const int exponent = std::ilogb(size);
  // A carry out of the fraction goes into the exponent.
  const auto fraction = static_cast<int>(std::nearbyint(std::ldexp(size, 10 - exponent)));
  return static_cast<uint16_t>(sign | (((exponent + 15) << 10) + fraction - 1024));
}

void add_float_operations(Operations* all) {
  auto& operations = *all;
  for (const char* rounding : {"", ".rn"}) {
    operations[std::string("add") + rounding + ".f32"] = {"w,w,w", binary<float, float, float, Add>};
    operations[std::string("sub") + rounding + ".f32"] = {"w,w,w", binary<float, float, float, Subtract>};
    operations[std::string("mul") + rounding + ".f32"] = {"w,w,w", binary<float, float, float, Multiply>};
    operations[std::string("add") + rounding + ".f64"] = {"d,d,d", binary<double, double, double, Add>};
    operations[std::string("sub") + rounding + ".f64"] = {"d,d,d", binary<double, double, double, Subtract>};
    operations[std::string("mul") + rounding + ".f64"] = {"d,d,d", binary<double, double, double, Multiply>};
  }
  operations["div.rn.f32"] = {"w,w,w", binary<float, float, float, Divide>};
  operations["fma.rn.f32"] = {"w,w,w,w", ternary<float, float, float, float, MultiplyAdd>};
  operations["fma.rn.f64"] = {"d,d,d,d", ternary<double, double, double, double, MultiplyAdd>};
  operations["neg.f32"] = {"w,w", unary<float, float, Negate>};
  operations["neg.f64"] = {"d,d", unary<double, double, Negate>};
  operations["setp.eq.f32"] = {"p,w,w", compare<float, Equal>};
  operations["setp.ne.f32"] = {"p,w,w", compare<float, NotEqual>};
  operations["setp.neu.f32"] = {"p,w,w", compare<float, NotEqualOrNan>};
  operations["setp.lt.f32"] = {"p,w,w", compare<float, Less>};
  operations["setp.le.f32"] = {"p,w,w", compare<float, LessEqual>};
  operations["setp.gt.f32"] = {"p,w,w", compare<float, Greater>};
  operations["setp.ge.f32"] = {"p,w,w", compare<float, GreaterEqual>};
  operations["setp.nan.f32"] = {"p,w,w", compare<float, Unordered>};
  operations["setp.num.f32"] = {"p,w,w", compare<float, Ordered>};
  operations["sub.f16x2"] = {"w,w,w", binary<uint32_t, uint32_t, uint32_t, SubtractHalves>};
  operations["mul.f16x2"] = {"w,w,w", binary<uint32_t, uint32_t, uint32_t, MultiplyHalves>};
  operations["fma.rn.bf16x2"] = {"w,w,w,w", ternary<uint32_t, uint32_t, uint32_t, uint32_t, MultiplyAddBfloats>};
  operations["cvt.f64.f32"] = {"d,w", unary<double, float, FloatToDouble>};
  operations["cvt.rn.f32.f64"] = {"w,d", unary<float, double, DoubleToFloat>};
  operations["cvt.f32.f16"] = {"w,h", unary<float, uint16_t, HalfToFloat>};
  operations["cvt.rn.f32.s32"] = {"w,w", unary<float, int32_t, IntegerToFloat>};
  operations["cvt.rn.f32.u32"] = {"w,w", unary<float, uint32_t, IntegerToFloat>};
  operations["cvt.rni.s32.f32"] = {"w,w", unary<int32_t, float, FloatToInteger>};
  operations["cvt.rn.f16.f32"] = {"h,w", unary<uint16_t, float, FloatToHalf>};
  operations["cvt.rn.bf16.f32"] = {"h,w", unary<uint16_t, float, FloatToBfloat>};
  operations["cvt.rna.tf32.f32"] = {"w,w", unary<uint32_t, float, FloatToTf32>};
}

}  // namespace ortconv::cuda::ptx

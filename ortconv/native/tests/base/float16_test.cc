// The 16-bit float formats, exhaustively, against arithmetic on doubles.
#include "base/float16.h"

#include <cmath>
#include <limits>

#include "base/dtype.h"
#include "testing/test.h"

namespace ortconv {
namespace {

// The value of a format with `mantissa` explicit bits and the exponent bias `bias`, from its definition.
double decode(uint16_t bits, int mantissa, int bias) {
  const int exponent_bits = 15 - mantissa;
  const int exponent = (bits >> mantissa) & ((1 << exponent_bits) - 1);
  const int fraction = bits & ((1 << mantissa) - 1);
  const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
  if (exponent == (1 << exponent_bits) - 1) {
    return fraction != 0 ? std::numeric_limits<double>::quiet_NaN() : sign * std::numeric_limits<double>::infinity();
  }
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias - mantissa);
  return sign * std::ldexp(fraction + (1 << mantissa), exponent - bias - mantissa);
}

bool same_bits(float a, float b) { return bits_of(a) == bits_of(b); }

template <class Half>
struct Format;

template <>
struct Format<Float16> {
  static constexpr int kMantissa = 10, kBias = 15;
  static Float16 encode(float value) { return to_float16(value); }
};

template <>
struct Format<Bfloat16> {
  static constexpr int kMantissa = 7, kBias = 127;
  static Bfloat16 encode(float value) { return to_bfloat16(value); }
};

template <class Half>
double value_of(int bits) {
  return decode(static_cast<uint16_t>(bits), Format<Half>::kMantissa, Format<Half>::kBias);
}

template <class Half>
void check_every_value() {
  for (int bits = 0; bits < 0x10000; ++bits) {
    const Half half{static_cast<uint16_t>(bits)};
    const double expected = value_of<Half>(bits);
    const float found = to_float(half);
    if (std::isnan(expected)) {
      EXPECT(std::isnan(found), "bits ", bits);
      EXPECT(std::isnan(to_float(Format<Half>::encode(found))), "bits ", bits);
      continue;
    }
    EXPECT(same_bits(found, static_cast<float>(expected)), "bits ", bits, " gives ", found);
    EXPECT(Format<Half>::encode(found).bits == half.bits, "bits ", bits, " do not survive the way to float and back");
  }
}

// Between every two neighbours: below, at and above the point half way.
template <class Half>
void check_rounding() {
  constexpr int kInfinity = ((1 << (15 - Format<Half>::kMantissa)) - 1) << Format<Half>::kMantissa;
  for (int bits = 0; bits < kInfinity; ++bits) {
    const double low = value_of<Half>(bits);
    // The largest finite value's upper neighbour, for rounding, is the next one the exponent would give.
    const double high = bits + 1 < kInfinity ? value_of<Half>(bits + 1) : low + (low - value_of<Half>(bits - 1));
    const auto middle = static_cast<float>((low + high) / 2);  // exact: one more bit than Half has
    const float below = std::nextafter(middle, 0.0f);
    const float above = std::nextafter(middle, std::numeric_limits<float>::infinity());
    const int even = bits % 2 == 0 ? bits : bits + 1;
    for (int sign : {0, 0x8000}) {
      const float factor = sign != 0 ? -1.0f : 1.0f;
      EXPECT(Format<Half>::encode(factor * below).bits == (bits | sign), "below the middle after ", bits);
      EXPECT(Format<Half>::encode(factor * middle).bits == (even | sign), "the middle after ", bits);
      EXPECT(Format<Half>::encode(factor * above).bits == ((bits + 1) | sign), "above the middle after ", bits);
    }
  }
}

TEST(float16_every_value) { check_every_value<Float16>(); }
TEST(float16_rounds_to_nearest_even) { check_rounding<Float16>(); }
TEST(bfloat16_every_value) { check_every_value<Bfloat16>(); }
TEST(bfloat16_rounds_to_nearest_even) { check_rounding<Bfloat16>(); }

TEST(extreme_floats) {
  const float largest = std::numeric_limits<float>::max(), smallest = std::numeric_limits<float>::denorm_min();
  EXPECT(to_float16(largest).bits == 0x7c00, "float's largest");
  EXPECT(to_bfloat16(largest).bits == 0x7f80, "float's largest");
  EXPECT(to_float16(-smallest).bits == 0x8000, "float's smallest");
  EXPECT(to_bfloat16(-smallest).bits == 0x8000, "float's smallest");
  // A NaN whose payload lies only in the bits that are cut off.
  EXPECT(std::isnan(to_float(to_float16(float_of(0x7f800001u)))), "NaN");
  EXPECT(std::isnan(to_float(to_bfloat16(float_of(0xff800001u)))), "NaN");
}

TEST(accumulation_types) {
  for (DataType dtype : kDataTypes) {
    const size_t sum = size_of(accumulation_type(dtype));
    EXPECT(sum >= size_of(dtype) && sum >= 4, "type ", static_cast<int>(dtype));
    EXPECT(accumulation_type(accumulation_type(dtype)) == accumulation_type(dtype), "type ", static_cast<int>(dtype));
  }
}

}  // namespace
}  // namespace ortconv

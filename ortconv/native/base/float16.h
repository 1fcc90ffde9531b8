// IEEE binary16 and bfloat16 as storage types, converted by bit operations: exact to float, and from float rounded to
// nearest even (overflow gives infinity, NaN stays NaN).
#pragma once

#include <cstdint>
#include <cstring>

namespace ortconv {

struct Float16 {
  uint16_t bits = 0;
};

struct Bfloat16 {
  uint16_t bits = 0;
};

inline uint32_t bits_of(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

inline float float_of(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

inline float to_float(Bfloat16 value) { return float_of(static_cast<uint32_t>(value.bits) << 16); }

// The conversions compute every case and then choose, so that loops over them vectorize.

inline float to_float(Float16 value) {
  const int32_t magnitude = value.bits & 0x7fff, sign = value.bits & 0x8000;
  // A subnormal is an integer number of 2^-24; going through the integer keeps it right where the thread flushes float
  // subnormals to zero.
  const auto subnormal = static_cast<int32_t>(bits_of(static_cast<float>(magnitude) * 0x1p-24f));
  const int32_t normal = (magnitude << 13) + (112 << 23);
  const int32_t special = (magnitude << 13) | 0x7f800000;  // infinity or NaN
  const int32_t bits = magnitude < 0x0400 ? subnormal : magnitude < 0x7c00 ? normal : special;
  return float_of(static_cast<uint32_t>(bits) | static_cast<uint32_t>(sign) << 16);
}

inline Float16 to_float16(float value) {
  const uint32_t bits = bits_of(value);
  const auto magnitude = static_cast<int32_t>(bits & 0x7fffffffu);
  const int32_t normal = (magnitude - (112 << 23) + 0x0fff + ((magnitude >> 13) & 1)) >> 13;
  // Below 2^-14: adding 0.5, whose last place is 2^-24, rounds to a multiple of 2^-24 and leaves it in the low bits.
  const float shifted = float_of(static_cast<uint32_t>(magnitude)) + 0.5f;
  const auto subnormal = static_cast<int32_t>(bits_of(shifted) - bits_of(0.5f));
  const int32_t nan = 0x7e00 | ((magnitude >> 13) & 0x03ff);  // made quiet, the payload's upper bits kept
  const int32_t special = magnitude > 0x7f800000 ? nan : 0x7c00;
  // From 65520, half way beyond the largest finite value, on the result is infinity.
  const int32_t half = magnitude >= 0x477ff000 ? special : magnitude < 0x38800000 ? subnormal : normal;
  return Float16{static_cast<uint16_t>(static_cast<uint32_t>(half) | (bits >> 16 & 0x8000u))};
}

inline Bfloat16 to_bfloat16(float value) {
  const uint32_t bits = bits_of(value);
  const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const uint32_t nan = (bits >> 16) | 0x0040u;  // made quiet
  const bool is_nan = static_cast<int32_t>(bits & 0x7fffffffu) > 0x7f800000;
  return Bfloat16{static_cast<uint16_t>(is_nan ? nan : rounded)};
}

}  // namespace ortconv

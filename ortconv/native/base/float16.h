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

inline float to_float(Float16 value) {
  const uint32_t magnitude = value.bits & 0x7fffu, sign = (value.bits & 0x8000u) << 16;
  // Written without branches so that loops over it vectorize. A subnormal is an integer number of 2^-24; going through
  // the integer keeps it right where the thread flushes float subnormals to zero.
  const uint32_t subnormal = bits_of(static_cast<float>(static_cast<int32_t>(magnitude)) * 0x1p-24f);
  const uint32_t normal = (magnitude << 13) + (112u << 23);
  const uint32_t special = (magnitude << 13) | 0x7f800000u;  // infinity or NaN
  const uint32_t bits = magnitude < 0x0400u ? subnormal : magnitude < 0x7c00u ? normal : special;
  return float_of(sign | bits);
}

inline Bfloat16 to_bfloat16(float value) {
  const uint32_t bits = bits_of(value);
  const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const uint32_t nan = (bits >> 16) | 0x0040u;
  const bool is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
  return Bfloat16{static_cast<uint16_t>(is_nan ? nan : rounded)};
}

inline Float16 to_float16(float value) {
  const uint32_t bits = bits_of(value), magnitude = bits & 0x7fffffffu, sign = (bits >> 16) & 0x8000u;
  uint32_t half;
  if (magnitude > 0x7f800000u) {
    half = 0x7e00u | ((magnitude >> 13) & 0x03ffu);  // NaN: made quiet, the payload's upper bits kept
  } else if (magnitude >= 0x477ff000u) {
    half = 0x7c00u;  // from 65520, half way beyond the largest finite value, on: infinity
  } else if (magnitude < 0x38800000u) {
    // Below 2^-14: adding 0.5, whose last place is 2^-24, rounds to a multiple of 2^-24 and leaves it in the low bits.
    half = bits_of(float_of(magnitude) + 0.5f) - bits_of(0.5f);
  } else {
    half = (magnitude - (112u << 23) + 0x0fffu + ((magnitude >> 13) & 1u)) >> 13;
  }
  return Float16{static_cast<uint16_t>(sign | half)};
}

}  // namespace ortconv

// Codes of a compressed matrix, one by one.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/matmul_nbits/matmul_nbits.h"

namespace ortconv::kernels {

constexpr int bits_of(Code code) { return code == Code::kU8 || code == Code::kS8 ? 8 : 4; }
constexpr bool is_signed(Code code) { return code == Code::kS8 || code == Code::kS4; }

template <Code kCode>
int32_t code_at(const void* codes, int64_t i) {
  if constexpr (kCode == Code::kU8) {
    return static_cast<const uint8_t*>(codes)[i];
  } else if constexpr (kCode == Code::kS8) {
    return static_cast<const int8_t*>(codes)[i];
  } else {
    const int32_t nibble = static_cast<const uint8_t*>(codes)[i / 2] >> i % 2 * 4 & 15;
    return kCode == Code::kS4 ? (nibble ^ 8) - 8 : nibble;
  }
}

// That of block i of the whole matrix.
template <Code kCode>
int32_t zero_at(const QuantizedMatrix& matrix, int64_t i) {
  return matrix.zeros == nullptr ? 0 : code_at<kCode>(matrix.zeros, i);
}

// The 4 bits each of `count` numbers, at most 8, from number `at` on: those of the first one lowest.
inline uint32_t packed_nibbles(const void* nibbles, int64_t at, int64_t count) {
  uint32_t packed = 0;
  for (int64_t i = 0; i < count; ++i) packed |= static_cast<uint32_t>(code_at<Code::kU4>(nibbles, at + i)) << 4 * i;
  return packed;
}

// Calls fn with the code as a constant.
template <class Fn>
auto with_code(Code code, Fn&& fn) {
  switch (code) {
    case Code::kU8:
      return fn(std::integral_constant<Code, Code::kU8>());
    case Code::kS8:
      return fn(std::integral_constant<Code, Code::kS8>());
    case Code::kU4:
      return fn(std::integral_constant<Code, Code::kU4>());
    case Code::kS4:
      return fn(std::integral_constant<Code, Code::kS4>());
    default:
      return fn(std::integral_constant<Code, Code::kTable>());
  }
}

}  // namespace ortconv::kernels

// Packs elements into 32-bit words, the first in the lowest bits.
#pragma once

#include "cuda/device/intrinsics.h"

namespace ortconv {
namespace cuda {

__device__ inline unsigned raw_bits(float value) { return __float_as_uint(value); }
__device__ inline unsigned raw_bits(unsigned short value) { return value; }
__device__ inline unsigned raw_bits(unsigned char value) { return value; }
__device__ inline unsigned raw_bits(signed char value) { return static_cast<unsigned char>(value); }

template <class T, int kCount>
__device__ inline unsigned word_of(const T (&values)[kCount], int first = 0) {
  unsigned word = 0;
#pragma unroll
  for (int i = 0; i < static_cast<int>(4 / sizeof(T)); ++i) word |= raw_bits(values[first + i]) << (8 * sizeof(T) * i);
  return word;
}

}  // namespace cuda
}  // namespace ortconv

// Blocks of packed weights. FLOATS: a block is [sum index][row] of floats. Otherwise it is [row][chunk] of elements,
// the chunks of a row swapped so that reading eight rows meets every bank once; with TF32 they are rounded to that.
#pragma once

#include "cuda/device.h"
#include "cuda/params.h"

namespace ortconv {
namespace cuda {

#if FLOATS
typedef float Packed;
#else
typedef Element Packed;
#endif

constexpr int kPerChunk = kChunkBytes / sizeof(Packed);

__device__ inline Packed packed_of(Element value) {
#if FLOATS
  return to_float(value);
#elif TF32
  return __uint_as_float(tf32_of_float(value));
#else
  return value;
#endif
}

// Where element `c` of a chunk of a row is.
__device__ inline int place_in_block(int row, int chunk, int c) {
#if FLOATS
  return (chunk * kPerChunk + c) * kGranule + row;
#else
  return (row * kChunks + (chunk ^ (row >> 1 & 3))) * kPerChunk + c;
#endif
}

}  // namespace cuda
}  // namespace ortconv

// Blocks of packed weights. With FLOATS a block is floats [depth][row]. Otherwise it is elements [row][chunk], the
// chunks of a row swizzled so that reading eight rows has no bank conflicts; with TF32 the elements are rounded to
// TF32. Integers are int8, with the zero point subtracted.
#pragma once

#include "cuda/device/values.h"
#include "cuda/device/words.h"
#include "cuda/params/convolution.h"

namespace ortconv {
namespace cuda {

#if FLOATS
typedef float Packed;
#elif ELEMENT == 3
typedef signed char Packed;
#else
typedef Element Packed;
#endif

constexpr int kPerChunk = kChunkBytes / sizeof(Packed);

// Converts an element of W for packing; w_zero is its zero point.
__device__ inline Packed packed_of(WeiElement value, int w_zero = 0) {
#if FLOATS
  return to_float(value);
#elif TF32
  return __uint_as_float(tf32_of_float(value));
#else
  return static_cast<Packed>(value - w_zero);
#endif
}

// Whether the packed element is exact and may meet padding zeros; see PackedHeader.
__device__ inline bool is_suitable(WeiElement value, int w_zero) {
#if ELEMENT == 3
  return value - w_zero == packed_of(value, w_zero);
#else
  return is_finite(value);
#endif
}

// The index of element `c` of a chunk of a row in a block.
__device__ inline int place_in_block(int row, int chunk, int c) {
#if FLOATS
  return (chunk * kPerChunk + c) * kPanelRows + row;
#else
  return (row * kChunks + (chunk ^ (row >> 1 & 3))) * kPerChunk + c;
#endif
}

// Writes a chunk of a row to a block.
__device__ inline void put_chunk(unsigned char* block, int row, int chunk, const Packed (&values)[kPerChunk]) {
  Packed* const to = reinterpret_cast<Packed*>(block) + place_in_block(row, chunk, 0);
#if FLOATS
#pragma unroll
  for (int c = 0; c < kPerChunk; ++c) to[c * kPanelRows] = values[c];
#else
  constexpr int kPerWord = kPerChunk / 4;
  store_chunk(reinterpret_cast<unsigned char*>(to), word_of(values, 0), word_of(values, kPerWord),
              word_of(values, 2 * kPerWord), word_of(values, 3 * kPerWord));
#endif
}

}  // namespace cuda
}  // namespace ortconv

// The layout of a block of packed weights, which depends on the compile options FLOATS and TF32. With FLOATS, a block
// holds float elements as [depth][row]. Otherwise it holds [row][chunk][element], with the chunks of each row permuted
// so that reads of eight rows cause no bank conflicts. With TF32, elements are rounded to TF32. Integers are stored as
// int8, after their zero point is subtracted.
#pragma once

#include "cuda/device/values.h"
#include "cuda/device/words.h"
#include "cuda/params/convolution.h"

namespace ortconv {
namespace cuda {

#if FLOATS
typedef float Packed;
#elif ELEMENT == 3  // 8-bit integers, see device.h
typedef signed char Packed;
#else
typedef Element Packed;
#endif

constexpr int kPerChunk = kChunkBytes / sizeof(Packed);  // elements

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

// Whether an element can be packed: an integer fits in 8 bits after its zero point is subtracted, a float is finite
// (so that its product with padding is 0). See PackedHeader.
__device__ inline bool can_be_packed(WeiElement value, int w_zero) {
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

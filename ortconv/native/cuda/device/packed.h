// Blocks of packed weights. FLOATS: a block is [sum index][row] of floats. Otherwise it is [row][chunk] of elements,
// the chunks of a row swapped so that reading eight rows meets every bank once; with TF32 they are rounded to that.
// Integers are without their zero point, of 8 bits with a sign.
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

// What is packed of an element of W, without its zero point, where it has one.
__device__ inline Packed packed_of(WeiElement value, int w_zero = 0) {
#if FLOATS
  return to_float(value);
#elif TF32
  return __uint_as_float(tf32_of_float(value));
#else
  return static_cast<Packed>(value - w_zero);
#endif
}

// Whether products of that are what the convolution multiplies; see PackedHeader.
__device__ inline bool is_suitable(WeiElement value, int w_zero) {
#if ELEMENT == 3
  return value - w_zero == packed_of(value, w_zero);
#else
  return is_finite(value);
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

// Puts a chunk of a row into a block, which is aligned to chunks.
__device__ inline void put_chunk(unsigned char* block, int row, int chunk, const Packed (&values)[kPerChunk]) {
  Packed* const to = reinterpret_cast<Packed*>(block) + place_in_block(row, chunk, 0);
#if FLOATS
#pragma unroll
  for (int c = 0; c < kPerChunk; ++c) to[c * kGranule] = values[c];
#else
  constexpr int kPerWord = kPerChunk / 4;
  store_chunk(reinterpret_cast<unsigned char*>(to), word_of(values, 0), word_of(values, kPerWord),
              word_of(values, 2 * kPerWord), word_of(values, 3 * kPerWord));
#endif
}

}  // namespace cuda
}  // namespace ortconv

// Codes of compressed weights: integers of BITS bits (8 or 4), the first in the lowest bits. TABLE: 4 bits choose a
// number from a table, which has been copied to shared memory.
#pragma once

#include "cuda/device/device.h"
#include "cuda/params/compressed.h"

namespace ortconv {
namespace cuda {

constexpr int kBits = BITS;
constexpr int kPerWord = 32 / kBits;
constexpr unsigned kCodeMask = (1u << kBits) - 1;
constexpr bool kHasTable = TABLE;
constexpr unsigned kMagic = 0x4b000000u;  // the bits of 2^23, as a float, where a unit has the value 1

// Code i of an array, unsigned.
__device__ inline unsigned code_at(const void* codes, long long i, unsigned flip) {
  const unsigned byte = static_cast<const unsigned char*>(codes)[kBits == 4 ? i >> 1 : i] ^ flip;
  return byte >> (kBits == 4 ? static_cast<int>(i & 1) * 4 : 0) & kCodeMask;
}

// The zero point of block i of the whole matrix, unsigned.
__device__ inline unsigned zero_at(const CompressedWeights& w, long long i) {
  return w.zeros != nullptr ? code_at(w.zeros, i, w.flip) : w.flip & kCodeMask;
}

// Exact.
__device__ inline float difference(unsigned code, unsigned zero) {
  return __uint_as_float(kMagic | code) - __uint_as_float(kMagic | zero);
}

// What a code stands for, less a zero point where there is no table.
__device__ inline float number_of(unsigned code, unsigned zero, const float* table) {
  return kHasTable ? table[code] : difference(code, zero);
}

// All threads of a block copy the table, and then wait for each other.
__device__ inline void copy_table(const CompressedWeights& w, float* table, int thread) {
  if (kHasTable && thread < kTableNumbers) table[thread] = w.table[thread];
}

__device__ inline float scale_at(const CompressedWeights& w, long long i) {
  return to_float(static_cast<const Element*>(w.scales)[i]);
}

// Scale and zero point along a row: those of the block of one element after the other.
struct BlockCounter {
  long long at, left;  // the block, of the whole matrix, and how many elements of it are to come
  float scale;
  unsigned zero;

  __device__ BlockCounter(const CompressedWeights& w, long long column, long long k) {
    at = column * w.blocks + k / w.block;
    left = w.block - k % w.block;
    scale = scale_at(w, at);
    zero = zero_at(w, at);
  }
  __device__ float value(unsigned code, const float* table) const { return number_of(code, zero, table) * scale; }
  // To the next element, which is one of the row.
  __device__ void next(const CompressedWeights& w) {
    if (--left > 0) return;
    ++at;
    left = w.block;
    scale = scale_at(w, at);
    zero = zero_at(w, at);
  }
};

// Where a lane is in its columns.
struct Place {
  long long k, block, rest;  // the element, the block that it is of, and where in that

  __device__ Place(const CompressedWeights& w, int first) {
    k = first;
    block = k / w.block;
    rest = k % w.block;
  }
  __device__ void advance(const CompressedDots& p, int step) {
    k += step;
    block += p.step_blocks;
    rest += p.step_rest;
    if (rest >= p.weights.block) {
      rest -= p.weights.block;
      ++block;
    }
  }
};

}  // namespace cuda
}  // namespace ortconv

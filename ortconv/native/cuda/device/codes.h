// Quantized weights ("codes"): integers of BITS bits (8 or 4), packed from the lowest bits. With TABLE a code is an
// index into a codebook, which kernels copy to shared memory.
#pragma once

#include "cuda/device/device.h"
#include "cuda/params/compressed.h"

namespace ortconv {
namespace cuda {

constexpr int kBits = BITS;
constexpr int kPerWord = 32 / kBits;
constexpr unsigned kCodeMask = (1u << kBits) - 1;
constexpr bool kHasTable = TABLE;
constexpr unsigned kMagic = 0x4b000000u;  // the bits of the float 2^23, whose lowest mantissa bit is worth 1

// Quantized value i, unsigned.
__device__ inline unsigned code_at(const void* codes, long long i, unsigned flip) {
  const unsigned byte = static_cast<const unsigned char*>(codes)[kBits == 4 ? i >> 1 : i] ^ flip;
  return byte >> (kBits == 4 ? static_cast<int>(i & 1) * 4 : 0) & kCodeMask;
}

// The zero point of block i of the whole matrix, unsigned.
__device__ inline unsigned zero_at(const CompressedWeights& w, long long i) {
  return w.zeros != nullptr ? code_at(w.zeros, i, w.flip) : w.flip & kCodeMask;
}

// code - zero, exactly.
__device__ inline float difference(unsigned code, unsigned zero) {
  return __uint_as_float(kMagic | code) - __uint_as_float(kMagic | zero);
}

// The weight before scaling.
__device__ inline float number_of(unsigned code, unsigned zero, const float* table) {
  return kHasTable ? table[code] : difference(code, zero);
}

// Copies the codebook to shared memory; the block must synchronize before using it.
__device__ inline void copy_table(const CompressedWeights& w, float* table, int thread) {
  if (kHasTable && thread < kTableNumbers) table[thread] = w.table[thread];
}

__device__ inline float scale_at(const CompressedWeights& w, long long i) {
  return to_float(static_cast<const Element*>(w.scales)[i]);
}

// Scale and zero point of consecutive elements of a row.
struct BlockCounter {
  long long at, left;  // the block, counted over the whole matrix, and its remaining elements
  float scale;
  unsigned zero;

  __device__ BlockCounter(const CompressedWeights& w, long long column, long long k) {
    at = column * w.blocks + k / w.block;
    left = w.block - k % w.block;
    scale = scale_at(w, at);
    zero = zero_at(w, at);
  }
  __device__ float value(unsigned code, const float* table) const { return number_of(code, zero, table) * scale; }
  // Moves to the next element, which must be in the row.
  __device__ void next(const CompressedWeights& w) {
    if (--left > 0) return;
    ++at;
    left = w.block;
    scale = scale_at(w, at);
    zero = zero_at(w, at);
  }
};

// The position of a lane in its columns.
struct Place {
  long long k, block, rest;  // the element, its block, and its offset in the block

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

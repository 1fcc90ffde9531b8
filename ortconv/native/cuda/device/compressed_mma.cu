// MatMulNBits for some rows, on tensor cores, for 16-bit floats. A warp computes 16 columns of up to 8 * TILES rows of
// src; a lane loads 16 bytes of quantized values of two columns at a time, each in one block. DEPTH_WARPS warps share a
// sum. The difference of weight and zero point is exact; its product with the scale is rounded.
//
// The elements of a sum are multiplied in the order in which they come out of a word, and src is permuted to match.

#include "cuda/device/codes.h"

namespace ortconv {
namespace cuda {

constexpr int kTiles = TILES, kRows = 8 * kTiles, kDepthWarps = DEPTH_WARPS;
constexpr int kUnit = 4 * kPerWord;     // elements that a lane takes of a column
constexpr int kUnitChunks = kUnit / 8;  // of 8 elements, which are two products
constexpr int kWarpStep = 4 * kUnit;    // what the four lanes of a column take
constexpr int kStep = kDepthWarps * kWarpStep;
constexpr int kAhead = 2;  // steps whose codes are on their way
constexpr int kWarps = kDotThreads / 32, kColumnWarps = kWarps / kDepthWarps;
constexpr int kBlockColumns = kColumnWarps * kMmaColumns;
constexpr int kPitch = kStep * 2 + kMmaRowPadding;  // bytes of a row of src in shared memory
// Where the table is, behind a step of src and the sums, which have the same place.
constexpr int kSrcBytes = kRows * kPitch, kSumBytes = kWarps * kRows * kMmaSumPitch * 4;
constexpr int kTableAt = kSrcBytes > kSumBytes ? kSrcBytes : kSumBytes;

// The lower, or the upper, halves of two words.
__device__ inline unsigned lower(unsigned a, unsigned b) { return (a & 0xffffu) | b << 16; }
__device__ inline unsigned upper(unsigned a, unsigned b) { return a >> 16 | (b & 0xffff0000u); }

// Copies a step of src to shared memory, zeros where there is none: chunks of 8 elements, those of the four lanes of a
// column together.
__device__ inline void copy_src(const CompressedDots& p, long long row, long long begin, unsigned char* memory,
                                int thread) {
  constexpr int kRowChunks = kStep / 8;
  const Element* const src = static_cast<const Element*>(p.src);
  const long long depth = p.weights.depth;
  const bool by_chunks = reinterpret_cast<unsigned long long>(src) % 16 == 0;
#pragma unroll 2
  for (int i = thread; i < kRows * kRowChunks; i += kDotThreads) {
    const int r = i / kRowChunks, chunk = i % kRowChunks;
    unsigned x[4] = {0, 0, 0, 0};
    if (row + r < p.rows && begin + chunk * 8 < depth) {
      const Element* const from = src + (row + r) * depth + begin + chunk * 8;
      if (by_chunks) {
        load_words(x, from);
      } else {
        for (int e = 0; e < 8; ++e) x[e / 2] |= static_cast<unsigned>(from[e]) << e % 2 * 16;
      }
    }
#if BITS == 4
    const unsigned ordered[4] = {lower(x[0], x[2]), upper(x[0], x[2]), lower(x[1], x[3]), upper(x[1], x[3])};
#else
    const unsigned ordered[4] = {lower(x[0], x[1]), upper(x[0], x[1]), lower(x[2], x[3]), upper(x[2], x[3])};
#endif
    const int lane = chunk / kUnitChunks % 4, place = chunk / (4 * kUnitChunks) * kUnitChunks + chunk % kUnitChunks;
    store_shared(shared_address(memory + r * kPitch + (place * 4 + lane) * 16), ordered);
  }
}

// The unit that a lane loads from one column; scale and zero point are in both halves of a word. Beyond the depth,
// codebook weights are zeros whatever the first entry of the codebook is.
struct Unit {
  unsigned words[4];
  unsigned scale;
  unsigned zero;
  bool is_there;
};

__device__ inline void load(const CompressedDots& p, long long first_column, const Place& place, Unit (&units)[2]) {
  const CompressedWeights& w = p.weights;
#pragma unroll
  for (int c = 0; c < 2; ++c) {
    const long long column = first_column + c * 8 < w.columns ? first_column + c * 8 : w.columns - 1;
#pragma unroll
    for (int i = 0; i < 4; ++i) units[c].words[i] = 0;
    units[c].scale = units[c].zero = 0;
    units[c].is_there = place.k < w.depth;
    if (!units[c].is_there) continue;
    load_words(units[c].words, static_cast<const unsigned char*>(w.codes) + (column * w.depth + place.k) * kBits / 8);
#pragma unroll
    for (int i = 0; i < 4; ++i) units[c].words[i] ^= w.flip;
    const long long block = column * w.blocks + place.block;
    units[c].scale = static_cast<const unsigned short*>(w.scales)[block] * 0x10001u;
    units[c].zero = zero_at(w, block) * 0x10001u;
  }
}

// Dequantizes chunk `i` of a unit, in pairs. Integers become floats by ORing them into the mantissa of a float whose
// lowest bit is worth 1.
__device__ inline void weights_of(const Unit& unit, int i, const float* table, unsigned (&pairs)[4]) {
#pragma unroll
  for (int j = 0; j < 4; ++j) {
#if BITS == 4
    const unsigned codes = unit.words[i] >> 4 * j & 0x000f000fu;
#else
    const unsigned codes = unit.words[i * 2 + j / 2] >> j % 2 * 8 & 0x00ff00ffu;
#endif
#if TABLE
    const float scale = to_float(static_cast<Element>(unit.scale));
    const unsigned low = to_element(table[codes & 0xffffu] * scale), high = to_element(table[codes >> 16] * scale);
    pairs[j] = unit.is_there ? low | high << 16 : 0;
#elif ELEMENT == 1
    pairs[j] = multiply_halves(subtract_halves(codes | 0x64006400u, unit.zero | 0x64006400u), unit.scale);
#elif BITS == 4
    pairs[j] = multiply_bfloats(subtract_bfloats(codes | 0x43004300u, unit.zero | 0x43004300u), unit.scale);
#else
    // 8 bits do not fit in the mantissa of a bfloat16, so these are converted by way of float.
    const unsigned zero = unit.zero & 0xffu;
    const unsigned low = __float_as_uint(difference(codes & 0xffu, zero));
    const unsigned high = __float_as_uint(difference(codes >> 16, zero));
    pairs[j] = multiply_bfloats(upper(low, high), unit.scale);
#endif
  }
}

// `src`: the lane's elements of src in shared memory.
__device__ inline void multiply(const Unit (&units)[2], const unsigned char* src, const float* table,
                                float (&sums)[kTiles][4]) {
#pragma unroll
  for (int i = 0; i < kUnitChunks; ++i) {
    unsigned pairs[2][4];
    weights_of(units[0], i, table, pairs[0]);
    weights_of(units[1], i, table, pairs[1]);
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
      unsigned x[4];
      load_words(x, src + tile * 8 * kPitch + i * 64);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const unsigned a[4] = {pairs[0][2 * half], pairs[1][2 * half], pairs[0][2 * half + 1], pairs[1][2 * half + 1]};
        const unsigned b[2] = {x[2 * half], x[2 * half + 1]};
#if ELEMENT == 1
        mma_f16(sums[tile], a, b);
#else
        mma_bf16(sums[tile], a, b);
#endif
      }
    }
  }
}

}  // namespace cuda
}  // namespace ortconv

KERNEL(compressed_mma, ortconv::cuda::CompressedDots, ortconv::cuda::kDotThreads, BLOCKS) {
  using namespace ortconv::cuda;
  const CompressedDots& p = params;
  const int thread = threadIdx.x, warp = thread / 32, lane = thread % 32;
  const int depth_warp = warp % kDepthWarps;
  const long long block_column = static_cast<long long>(blockIdx.x) * kBlockColumns;
  const long long first_column = block_column + warp / kDepthWarps * kMmaColumns + lane / 4;
  const unsigned char* const own = shared_memory() + lane / 4 * kPitch + (depth_warp * kUnitChunks * 4 + lane % 4) * 16;
  float* const all_sums = reinterpret_cast<float*>(shared_memory());
  float* const table = reinterpret_cast<float*>(shared_memory() + kTableAt);

  copy_table(p.weights, table, thread);
  for (long long row = static_cast<long long>(blockIdx.y) * kRows; row < p.rows;
       row += static_cast<long long>(gridDim.y) * kRows) {
    float sums[kTiles][4] = {};
    Place place(p.weights, depth_warp * kWarpStep + lane % 4 * kUnit);
    Unit ahead[kAhead][2];
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      load(p, first_column, place, ahead[i]);
      place.advance(p, kStep);
    }
    for (long long begin = 0; begin < p.weights.depth; begin += kAhead * kStep) {
#pragma unroll
      for (int i = 0; i < kAhead; ++i) {
        if (begin + i * kStep >= p.weights.depth) break;
        __syncthreads();  // the step before, or the sums of the rows before, have been read
        copy_src(p, row, begin + i * kStep, shared_memory(), thread);
        __syncthreads();
        const Unit units[2] = {ahead[i][0], ahead[i][1]};
        load(p, first_column, place, ahead[i]);
        place.advance(p, kStep);
        multiply(units, own, table, sums);
      }
    }

    __syncthreads();  // the last step has been read
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int r = tile * 8 + lane % 4 * 2 + e % 2, c = lane / 4 + e / 2 * 8;
        all_sums[(warp * kRows + r) * kMmaSumPitch + c] = sums[tile][e];
      }
    }
    __syncthreads();
    for (int i = thread; i < kRows * kBlockColumns; i += kDotThreads) {
      const int c = i % kBlockColumns, r = i / kBlockColumns;
      const float* const from = all_sums + (c / kMmaColumns * kDepthWarps * kRows + r) * kMmaSumPitch + c % kMmaColumns;
      float sum = from[0];
#pragma unroll
      for (int d = 1; d < kDepthWarps; ++d) sum += from[d * kRows * kMmaSumPitch];
      if (block_column + c < p.weights.columns && row + r < p.rows) {
        static_cast<Element*>(p.dst)[(row + r) * p.weights.columns + block_column + c] = to_element(sum);
      }
    }
  }
}

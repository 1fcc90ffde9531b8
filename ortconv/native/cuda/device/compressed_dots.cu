// MatMulNBits for few rows: reads quantized weights once and multiplies in float. A lane loads WORDS words of quantized
// values of COLUMNS columns at a time, for ROWS rows of src; a warp loads 32 consecutive such units. DEPTH_WARPS warps
// share the sum of a column. The difference of weight and zero point is exact; the sum over a block is scaled.
//
// WHOLE: a unit lies in one block and is aligned to words. Otherwise values are read one by one.
// GATHER: there is an expert index, and ROWS is 1.

#include "cuda/device/codes.h"

namespace ortconv {
namespace cuda {

constexpr int kWords = WORDS, kRows = ROWS, kColumns = COLUMNS, kDepthWarps = DEPTH_WARPS;
constexpr int kUnit = kWords * kPerWord;  // elements of a column that a lane loads at once
constexpr int kFours = kUnit / 4;
constexpr int kStep = kDepthWarps * 32 * kUnit;  // of the block
constexpr int kWarps = kDotThreads / 32, kColumnWarps = kWarps / kDepthWarps;
constexpr int kBlockColumns = kColumnWarps * kColumns;
constexpr int kSums = kColumns * kRows;
constexpr int kRowFloats = kDepthWarps * kFours * kFourPitch;  // of a step of src
static_assert(kSums <= 32 && kUnit % 4 == 0 && (!GATHER || kRows == 1));

// Loads four elements at once; `from` is aligned to them.
__device__ inline void load_elements(float (&to)[4], const Element* from) {
#if ELEMENT == 0
  load_four(to, from);
#else
  unsigned words[2];
  load_words(words, from);
  for (int i = 0; i < 4; ++i) to[i] = to_float(static_cast<Element>(words[i / 2] >> i % 2 * 16));
#endif
}

// Stores four floats to shared memory at once; `to` is aligned to them.
__device__ inline void store_floats(float* to, const float (&from)[4]) {
  const unsigned words[4] = {__float_as_uint(from[0]), __float_as_uint(from[1]), __float_as_uint(from[2]),
                             __float_as_uint(from[3])};
  store_shared(shared_address(reinterpret_cast<unsigned char*>(to)), words);
}

// Copies a step of src to shared memory, zeros from row `rows` on.
__device__ inline void copy_src(const CompressedDots& p, long long row, long long rows, long long begin, float* memory,
                                int thread) {
  const Element* const src = static_cast<const Element*>(p.src);
  const long long depth = p.weights.depth;
  const bool by_fours = depth % 4 == 0 && reinterpret_cast<unsigned long long>(src) % (4 * sizeof(Element)) == 0;
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const Element* const from = src + (row + r) * depth + begin;
#pragma unroll 4
    for (int k = thread * 4; k < kStep; k += kDotThreads * 4) {
      float values[4] = {0, 0, 0, 0};
      if (row + r < rows) {
        if (by_fours) {
          if (begin + k < depth) load_elements(values, from + k);
        } else {
          for (int i = 0; i < 4; ++i) {
            if (begin + k + i < depth) values[i] = to_float(from[k + i]);
          }
        }
      }
      const int lane = k / kUnit % 32, four = k / (32 * kUnit) * kFours + k % kUnit / 4;
      store_floats(memory + r * kRowFloats + four * kFourPitch + lane * 4, values);
    }
  }
}

#if WHOLE

// The unit that a lane loads from one column. Beyond the depth a codebook unit is skipped, since the first entry of the
// codebook may not be finite.
struct Unit {
  unsigned words[kWords];
  float scale, zero;
  bool is_there;
};

// Loads units from column first_column on, of the matrix whose first column is `matrix`.
__device__ inline void load(const CompressedDots& p, long long matrix, long long first_column, const Place& place,
                            Unit (&units)[kColumns]) {
  const CompressedWeights& w = p.weights;
#pragma unroll
  for (int c = 0; c < kColumns; ++c) {
    const long long column = matrix + (first_column + c < w.columns ? first_column + c : w.columns - 1);
#pragma unroll
    for (int i = 0; i < kWords; ++i) units[c].words[i] = 0;
    units[c].scale = units[c].zero = 0;
    units[c].is_there = place.k < w.depth;
    if (!units[c].is_there) continue;
    load_words(units[c].words, static_cast<const unsigned char*>(w.codes) + (column * w.depth + place.k) * kBits / 8);
#pragma unroll
    for (int i = 0; i < kWords; ++i) units[c].words[i] ^= w.flip;
    units[c].scale = scale_at(w, column * w.blocks + place.block);
    units[c].zero = difference(zero_at(w, column * w.blocks + place.block), 0);
  }
}

// `src`: the lane's elements of src in shared memory.
__device__ inline void multiply(const Unit (&units)[kColumns], const float* src, const float* table,
                                float (&sums)[kColumns][kRows]) {
  // A code ORed into the mantissa of 2^23 above j other codes counts 2^(BITS * j) times; scaling it back and
  // subtracting 2^23 and the zero point are exact.
  constexpr int kOfHalf = 16 / kBits;
  float less[kColumns][kOfHalf];
#pragma unroll
  for (int c = 0; c < kColumns; ++c) {
#pragma unroll
    for (int j = 0; j < kOfHalf; ++j) {
      less[c][j] = -static_cast<float>(0x800000 >> kBits * j) - units[c].zero;
    }
  }
  float products[kColumns][kRows] = {};
#pragma unroll
  for (int four = 0; four < kFours; ++four) {
    float values[kColumns][4];
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int bit = (four * 4 + e) % kPerWord * kBits, j = bit % 16 / kBits;
        const unsigned word = units[c].words[(four * 4 + e) / kPerWord], half = word >> bit / 16 * 16;
        if (kHasTable) {
          values[c][e] = table[word >> bit & kCodeMask];
          continue;
        }
        values[c][e] = fmaf(__uint_as_float((half & kCodeMask << kBits * j) | kMagic),
                            1.0f / static_cast<float>(1 << kBits * j), less[c][j]);
      }
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      float x[4];
      load_four(x, src + r * kRowFloats + four * kFourPitch);
#pragma unroll
      for (int c = 0; c < kColumns; ++c) {
#pragma unroll
        for (int e = 0; e < 4; ++e) products[c][r] = fmaf(values[c][e], x[e], products[c][r]);
      }
    }
  }
#pragma unroll
  for (int c = 0; c < kColumns; ++c) {
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      if (!kHasTable || units[c].is_there) sums[c][r] = fmaf(units[c].scale, products[c][r], sums[c][r]);
    }
  }
}

#else

__device__ inline void multiply_any(const CompressedDots& p, long long matrix, long long first_column, long long first,
                                    const float* src, const float* table, float (&sums)[kColumns][kRows]) {
  const CompressedWeights& w = p.weights;
  const int count = static_cast<int>(w.depth - first < kUnit ? w.depth - first : kUnit);
  if (count <= 0) return;
#pragma unroll
  for (int c = 0; c < kColumns; ++c) {
    const long long column = matrix + (first_column + c < w.columns ? first_column + c : w.columns - 1);
    BlockCounter block(w, column, first);
    for (int i = 0; i < count; ++i) {
      if (i > 0) block.next(w);
      const float value = block.value(code_at(w.codes, column * w.depth + first + i, w.flip), table);
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        sums[c][r] = fmaf(value, src[r * kRowFloats + i / 4 * kFourPitch + i % 4], sums[c][r]);
      }
    }
  }
}

#endif

// Reduces the values over the warp in a fixed order: values[0] becomes the total of value number `index`.
__device__ inline void total(float (&values)[kSums], int lane, int* index) {
  *index = 0;
  int count = kSums;
#pragma unroll
  for (int mask = 16; mask > 0; mask /= 2) {
    const bool upper = (lane & mask) != 0;
    if (count == 1) {
      values[0] += shuffle_xor(values[0], mask);
      continue;
    }
    count /= 2;
    *index += upper ? count : 0;
#pragma unroll
    for (int i = 0; i < count; ++i) {
      const float kept = upper ? values[i + count] : values[i], given = upper ? values[i] : values[i + count];
      values[i] = kept + shuffle_xor(given, mask);
    }
  }
}

}  // namespace cuda
}  // namespace ortconv

KERNEL(compressed_dots, ortconv::cuda::CompressedDots, ortconv::cuda::kDotThreads, BLOCKS) {
  using namespace ortconv::cuda;
  const CompressedDots& p = params;
  float* const memory = reinterpret_cast<float*>(shared_memory());
  float *const warp_sums = memory + kRows * kRowFloats, *const table = warp_sums + kWarps * kSums;
  const int thread = threadIdx.x, warp = thread / 32, lane = thread % 32;
  const long long first_column = static_cast<long long>(blockIdx.x) * kBlockColumns + warp / kDepthWarps * kColumns;
  const float* const own = memory + warp % kDepthWarps * kFours * kFourPitch + lane * 4;

  copy_table(p.weights, table, thread);
  for (long long row = static_cast<long long>(blockIdx.y) * kRows; row < p.rows;
       row += static_cast<long long>(gridDim.y) * kRows) {
#if GATHER
    const long long named = p.index[row], src_row = row / p.sharing, src_rows = src_row + 1;
    if (named < 0 || named >= p.matrices) {
      const long long column = static_cast<long long>(blockIdx.x) * kBlockColumns + thread;
      if (thread < kBlockColumns && column < p.weights.columns) {
        static_cast<Element*>(p.dst)[row * p.weights.columns + column] = to_element(0);
      }
      continue;
    }
    const long long matrix = named * p.weights.columns;
#else
    const long long matrix = 0, src_row = row, src_rows = p.rows;
#endif
    float sums[kColumns][kRows] = {};
    Place place(p.weights, (warp % kDepthWarps * 32 + lane) * kUnit);
#if WHOLE
    Unit next[kColumns];
    load(p, matrix, first_column, place, next);
#endif
    for (long long begin = 0; begin < p.weights.depth; begin += kStep) {
      __syncthreads();  // the step before has been read
      copy_src(p, src_row, src_rows, begin, memory, thread);
      __syncthreads();
#if WHOLE
      Unit units[kColumns];
#pragma unroll
      for (int c = 0; c < kColumns; ++c) units[c] = next[c];
      place.advance(p, kStep);
      load(p, matrix, first_column, place, next);
      multiply(units, own, table, sums);
#else
      multiply_any(p, matrix, first_column, place.k, own, table, sums);
      place.advance(p, kStep);
#endif
    }

    float values[kSums];
#pragma unroll
    for (int i = 0; i < kSums; ++i) values[i] = sums[i / kRows][i % kRows];
    int index;
    total(values, lane, &index);
    if (lane % (32 / kSums) == 0) warp_sums[warp * kSums + index] = values[0];
    __syncthreads();
    if (thread < kBlockColumns * kRows) {
      const int c = thread % kBlockColumns, r = thread / kBlockColumns;
      const float* const from = warp_sums + c / kColumns * kDepthWarps * kSums + c % kColumns * kRows + r;
      float sum = from[0];
#pragma unroll
      for (int i = 1; i < kDepthWarps; ++i) sum += from[i * kSums];
      const long long column = static_cast<long long>(blockIdx.x) * kBlockColumns + c;
      if (column < p.weights.columns && row + r < p.rows) {
        static_cast<Element*>(p.dst)[(row + r) * p.weights.columns + column] = to_element(sum);
      }
    }
  }
}

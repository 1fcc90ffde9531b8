// Dot products with codes in AVX2. Only for files named after it.
//
// 32 bytes of a row are 8 numbers of 32 bits with 8 codes of 4 bits each, which shifts bring to their lower ends one
// after the other. Lane i of vector j holds the code 8 i + j, and x is arranged to match.
#pragma once

#include <immintrin.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "kernels/matmul_nbits/codes.h"
#include "kernels/matmul_nbits/stages.h"
#include "kernels/unroll.h"

namespace ortconv::kernels {
namespace {

constexpr int64_t kChunk = 64;  // codes of 4 bits in 32 bytes

// The blocks of a chunk, or 1 where a block has whole chunks or a row has one block; 0: neither.
inline int64_t blocks_per_chunk(const QuantizedMatrix& matrix) {
  if (matrix.block % kChunk == 0 || matrix.block == matrix.k) return 1;
  return matrix.block == 16 || matrix.block == 32 ? kChunk / matrix.block : 0;
}

// Whether dots() below takes the matrix.
inline bool has_dots(const QuantizedMatrix& matrix) {
  if (bits_of(matrix.code) == 8) return matrix.block % 8 == 0 || matrix.block == matrix.k;
  return matrix.k % 2 == 0 && blocks_per_chunk(matrix) > 0;
}

// Vectors of 8 numbers of one row after the other, and those of the same k of all rows together; zeros from k on.
inline void arrange_vectors(const QuantizedMatrix& matrix, int64_t m, const float* x, float* out) {
  const int64_t step = bits_of(matrix.code) == 8 ? 8 : kChunk, apart = step / 8;
  for (int64_t begin = 0; begin < matrix.k; begin += step) {
    for (int64_t j = 0; j < apart; ++j) {
      for (int64_t i = 0; i < m; ++i) {
        for (int64_t lane = 0; lane < 8; ++lane) {
          const int64_t k = begin + lane * apart + j;
          *out++ = k < matrix.k ? x[i * matrix.k + k] : 0.0f;
        }
      }
    }
  }
}

inline float sum_of(__m256 v) {
  const __m128 half = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  const __m128 two = _mm_add_ps(half, _mm_movehl_ps(half, half));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

template <int M>
void store_sums(const DotArgs& args, int64_t n, const __m256 (&sums)[M]) {
  ORTCONV_UNROLL
  for (int m = 0; m < M; ++m) {
    float& y = args.y[m][n - args.first];
    const float sum = sum_of(sums[m]);
    y = args.begin > 0 ? y + sum : sum;
  }
}

// The first `bytes` of a vector, and zeros.
inline __m256i load_codes(const uint8_t* codes, int64_t bytes) {
  if (bytes >= 32) return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(codes));
  alignas(32) uint8_t some[32] = {};
  std::memcpy(some, codes, bytes);
  return _mm256_load_si256(reinterpret_cast<const __m256i*>(some));
}

constexpr float kNoTable[kTableNumbers] = {};

// Numbers that the lowest 4 bits of every lane choose: the lowest 3 of them from either half of the table.
struct Lookup {
  __m256 lower, upper;

  explicit Lookup(const float* table) : lower(_mm256_loadu_ps(table)), upper(_mm256_loadu_ps(table + 8)) {}
  __m256 operator()(__m256i word) const {
    const __m256 is_upper = _mm256_castsi256_ps(_mm256_slli_epi32(word, 28));
    return _mm256_blendv_ps(_mm256_permutevar8x32_ps(lower, word), _mm256_permutevar8x32_ps(upper, word), is_upper);
  }
};

// Codes of 4 bits, of kPerChunk blocks in a chunk. 4 bits with a sign are those without one, less 8.
template <Code kCode, int kPerChunk>
struct NibblesDot {
  static constexpr int kFlip = kCode == Code::kS4 ? 8 : 0;

  // Block i of a chunk has lanes [i, i + 1) * 8 / kPerChunk.
  static __m256i block_of_lane() {
    return _mm256_srli_epi32(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), kPerChunk == 1 ? 3 : kPerChunk == 2 ? 2 : 1);
  }

  // The scales of `count` blocks.
  static __m256 scales(const float* scales, int64_t count, __m256i block_of) {
    if constexpr (kPerChunk == 1) {
      return _mm256_set1_ps(*scales);
    } else {
      alignas(16) float few[4] = {};
      std::memcpy(few, scales, std::min<int64_t>(count, kPerChunk) * sizeof(float));
      return _mm256_permutevar8x32_ps(_mm256_castps128_ps256(_mm_load_ps(few)), block_of);
    }
  }

  // The zero points of `count` blocks from block `at` of the matrix on, as codes without a sign.
  static __m256i zeros(const QuantizedMatrix& matrix, int64_t at, int64_t count, __m256i block_of) {
    if (matrix.zeros == nullptr) return _mm256_set1_epi32(kFlip);
    const auto packed = static_cast<int>(packed_nibbles(matrix.zeros, at, count));
    const __m256i shifted = _mm256_srlv_epi32(_mm256_set1_epi32(packed), _mm256_slli_epi32(block_of, 2));
    return _mm256_xor_si256(_mm256_and_si256(shifted, _mm256_set1_epi32(15)), _mm256_set1_epi32(kFlip));
  }

  template <int M>
  static void row(const DotArgs& args, int64_t n) {
    const QuantizedMatrix& matrix = *args.matrix;
    const int64_t blocks = matrix.k / matrix.block;
    const __m256i block_of = block_of_lane(), low = _mm256_set1_epi32(15);
    const Lookup looked_up(kCode == Code::kTable ? matrix.table : kNoTable);
    const auto* codes = static_cast<const uint8_t*>(matrix.codes) + (n * matrix.k + args.begin) / 2;
    const float* x = args.x + M * args.begin;
    __m256 sums[M], scale = _mm256_setzero_ps();
    __m256i zero = _mm256_setzero_si256();
    ORTCONV_UNROLL
    for (int m = 0; m < M; ++m) sums[m] = _mm256_setzero_ps();
    int64_t known = -1;  // the block that scale and zero are of
    for (int64_t k = args.begin; k < args.end; k += kChunk, codes += 32, x += M * kChunk) {
      if (const int64_t b = k / matrix.block; b != known) {
        const int64_t count = std::min<int64_t>(kPerChunk, blocks - b);
        scale = scales(matrix.scales + n * blocks + b, count, block_of);
        zero = zeros(matrix, n * blocks + b, count, block_of);
        known = b;
      }
      __m256i word = load_codes(codes, (args.end - k) / 2);
      if constexpr (kFlip != 0) word = _mm256_xor_si256(word, _mm256_set1_epi8(static_cast<char>(0x88)));
      const auto add_products = [&](auto is_part) {
        // How many codes there are of what a lane has, and of the following ones.
        const __m256i left = _mm256_sub_epi32(_mm256_set1_epi32(static_cast<int>(std::min(args.end - k, kChunk))),
                                              _mm256_setr_epi32(0, 8, 16, 24, 32, 40, 48, 56));
        const auto if_there = [&](__m256 value, int j) {
          const __m256i there = _mm256_cmpgt_epi32(left, _mm256_set1_epi32(j));
          return is_part() ? _mm256_and_ps(value, _mm256_castsi256_ps(there)) : value;
        };
        __m256 part[M];
        ORTCONV_UNROLL
        for (int j = 0; j < 8; ++j) {
          __m256 weight;
          if constexpr (kCode == Code::kTable) {
            weight = if_there(looked_up(word), j);
          } else {
            weight = _mm256_cvtepi32_ps(_mm256_sub_epi32(_mm256_and_si256(word, low), zero));
          }
          word = _mm256_srli_epi32(word, 4);
          ORTCONV_UNROLL
          for (int m = 0; m < M; ++m) {
            const __m256 xm = _mm256_load_ps(x + 8 * (M * j + m));
            part[m] = j == 0 ? _mm256_mul_ps(weight, xm) : _mm256_fmadd_ps(weight, xm, part[m]);
          }
        }
        const __m256 factor = if_there(scale, 0);
        ORTCONV_UNROLL
        for (int m = 0; m < M; ++m) sums[m] = _mm256_fmadd_ps(part[m], factor, sums[m]);
      };
      if (kCode == Code::kTable && args.end - k < kChunk) {  // where codes that are not there might not be finite
        add_products(std::true_type());
      } else {
        add_products(std::false_type());
      }
    }
    store_sums(args, n, sums);
  }
};

// Codes of 8 bits.
template <Code kCode>
struct BytesDot {
  static __m256i widened(const uint8_t* codes) {
    const __m128i few = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(codes));
    return kCode == Code::kS8 ? _mm256_cvtepi8_epi32(few) : _mm256_cvtepu8_epi32(few);
  }

  template <int M>
  static void row(const DotArgs& args, int64_t n) {
    constexpr int kChains = M == 1 ? 4 : 2;  // independent sums, which hide the latency of an FMA
    const QuantizedMatrix& matrix = *args.matrix;
    const int64_t blocks = matrix.k / matrix.block;
    const auto* codes = static_cast<const uint8_t*>(matrix.codes) + n * matrix.k;
    const float* x = args.x;
    __m256 sums[M];
    ORTCONV_UNROLL
    for (int m = 0; m < M; ++m) sums[m] = _mm256_setzero_ps();
    for (int64_t k = args.begin; k < args.end;) {
      const int64_t b = k / matrix.block, stop = std::min((b + 1) * matrix.block, args.end);
      const __m256i zero = _mm256_set1_epi32(zero_at<kCode>(matrix, n * blocks + b));
      const __m256 scale = _mm256_set1_ps(matrix.scales[n * blocks + b]);
      __m256 part[kChains][M];
      ORTCONV_UNROLL
      for (int m = 0; m < kChains * M; ++m) part[m / M][m % M] = _mm256_setzero_ps();
      const auto add_products = [&](const uint8_t* at, __m256(&to)[M]) {
        const __m256 weight = _mm256_cvtepi32_ps(_mm256_sub_epi32(widened(at), zero));
        ORTCONV_UNROLL
        for (int m = 0; m < M; ++m) to[m] = _mm256_fmadd_ps(weight, _mm256_load_ps(x + M * k + 8 * m), to[m]);
        k += 8;
      };
      while (k + 8 * kChains <= stop) {
        ORTCONV_UNROLL
        for (int chain = 0; chain < kChains; ++chain) add_products(codes + k, part[chain]);
      }
      while (k + 8 <= stop) add_products(codes + k, part[0]);
      if (k < stop) {
        uint8_t rest[8] = {};
        std::memcpy(rest, codes + k, stop - k);
        add_products(rest, part[0]);
        k = stop;
      }
      ORTCONV_UNROLL
      for (int m = 0; m < M; ++m) {
        ORTCONV_UNROLL
        for (int chain = 1; chain < kChains; ++chain) part[0][m] = _mm256_add_ps(part[0][m], part[chain][m]);
        sums[m] = _mm256_fmadd_ps(part[0][m], scale, sums[m]);
      }
    }
    store_sums(args, n, sums);
  }
};

constexpr int kDotRows = 4;

template <class Dot, int M>
void some_rows(const DotArgs& args) {
  for (int64_t n = args.first; n < args.last; ++n) Dot::template row<M>(args, n);
}

template <class Dot>
void all_rows(const DotArgs& args) {
  static constexpr void (*kSome[kDotRows])(const DotArgs&) = {some_rows<Dot, 1>, some_rows<Dot, 2>, some_rows<Dot, 3>,
                                                              some_rows<Dot, 4>};
  kSome[args.m - 1](args);
}

}  // namespace
}  // namespace ortconv::kernels

// Dot products with codes in AVX-512. Only for files named after it.
//
// A register of 16 floats is a table that four bits index: a lookup turns 16 codes into weights. 64 bytes of a row are
// 16 numbers of 32 bits with 8 codes each, so 8 lookups, with shifts between them, take them all. Lane i of lookup j
// holds the code 8 i + j, and x is arranged to match.
#pragma once

#include <immintrin.h>

#include <algorithm>
#include <cstdint>

#include "kernels/compressed/codes.h"
#include "kernels/compressed/stages.h"
#include "kernels/unroll.h"
#include "kernels/vector_avx512.h"

namespace ortconv::kernels {
namespace {

constexpr int64_t kChunk = 128;  // codes of 4 bits in 64 bytes
// How far ahead of its use a matrix is asked for, in bytes.
constexpr int64_t kCodesAhead = 4096;

// kNibbles: blocks of whole chunks, or one for the row; kNibbleBlocks: several blocks in a chunk.
enum class Way { kBytes, kNibbles, kNibbleBlocks, kOther };

inline Way way_of(const CompressedMatrix& matrix) {
  const int64_t block = matrix.block;
  if (bits_of(matrix.code) == 8) return block % 16 == 0 || block == matrix.k ? Way::kBytes : Way::kOther;
  if (matrix.k % 2 != 0) return Way::kOther;
  if (block % kChunk == 0 || block == matrix.k) return Way::kNibbles;
  return block == 16 || block == 32 || block == 64 ? Way::kNibbleBlocks : Way::kOther;
}

inline void arrange_bytes(int64_t k, const float* x, float* out) {
  std::copy_n(x, k, out);
  std::fill_n(out + k, arranged_depth(k) - k, 0.0f);
}

inline void arrange_nibbles(int64_t k, const float* x, float* out) {
  const __m512i eighth = _mm512_setr_epi32(0, 8, 16, 24, 32, 40, 48, 56, 64, 72, 80, 88, 96, 104, 112, 120);
  for (int64_t begin = 0; begin < k; begin += kChunk, out += kChunk) {
    const int64_t left = k - begin;
    for (int64_t j = 0; j < 8; ++j) {
      const __mmask16 lanes = static_cast<__mmask16>((1u << std::clamp<int64_t>((left - j + 7) / 8, 0, 16)) - 1);
      _mm512_store_ps(out + 16 * j,
                      _mm512_mask_i32gather_ps(_mm512_setzero_ps(), lanes, eighth, x + begin + j, sizeof(float)));
    }
  }
}

// What 4 bits stand for.
template <Code kCode>
__m512 nibble_values() {
  if constexpr (kCode == Code::kS4) {
    return _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, -8, -7, -6, -5, -4, -3, -2, -1);
  } else {
    return _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  }
}

// The first `bytes` of 64, and zeros.
inline __m512i load_codes(const uint8_t* codes, int64_t bytes) {
  if (bytes >= 64) return _mm512_loadu_si512(codes);
  return _mm512_maskz_loadu_epi8((uint64_t{1} << bytes) - 1, codes);
}

inline void ask_ahead(const uint8_t* codes) {
  _mm_prefetch(reinterpret_cast<const char*>(codes) + kCodesAhead, _MM_HINT_T0);
}

// The sums of the lanes of four vectors.
inline __m128 sums_of(__m512 a, __m512 b, __m512 c, __m512 d) {
  const __m512 ab = _mm512_add_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
  const __m512 cd = _mm512_add_ps(_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d));
  const __m512 abcd = _mm512_add_ps(_mm512_shuffle_ps(ab, cd, 0x44), _mm512_shuffle_ps(ab, cd, 0xee));
  const __m256 half = _mm256_add_ps(_mm512_castps512_ps256(abcd), _mm512_extractf32x8_ps(abcd, 1));
  return _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
}

// Of R rows of the matrix from row n on, by M rows of x.
template <int M, int R>
void store_sums(const DotArgs& args, int64_t n, int64_t i, const __m512 (&sums)[M][R]) {
  ORTCONV_UNROLL
  for (int m = 0; m < M; ++m) {
    float* y = args.y + (i + m) * args.ldy + n;
    if constexpr (R == 4) {
      _mm_storeu_ps(y, sums_of(sums[m][0], sums[m][1], sums[m][2], sums[m][3]));
    } else {
      ORTCONV_UNROLL
      for (int r = 0; r < R; ++r) y[r] = _mm512_reduce_add_ps(sums[m][r]);
    }
  }
}

// Codes of 4 bits in blocks of whole chunks: the tables hold the weights themselves.
template <Code kCode>
struct NibblesDot {
  template <int M, int R>
  static void rows(const DotArgs& args, int64_t n, int64_t i) {
    constexpr int kChains = M * R < 8 ? 2 : 1;  // at least 8 independent sums hide the latency of an FMA
    const CompressedMatrix& matrix = *args.matrix;
    const int64_t blocks = matrix.k / matrix.block, stride = matrix.k / 2, ldx = args.ldx;
    const __m512 values = nibble_values<kCode>();
    const auto* codes = static_cast<const uint8_t*>(matrix.codes) + n * stride;
    const float* x = args.x + i * ldx;
    __m512 sums[kChains][M][R];
    ORTCONV_UNROLL
    for (int m = 0; m < kChains * M * R; ++m) sums[m % kChains][m / kChains / R][m / kChains % R] = _mm512_setzero_ps();
    for (int64_t b = 0; b < blocks; ++b) {
      __m512 table[R];
      ORTCONV_UNROLL
      for (int r = 0; r < R; ++r) {
        const int64_t at = (n + r) * blocks + b;
        const auto zero = static_cast<float>(zero_at<kCode>(matrix, at));
        table[r] = _mm512_mul_ps(_mm512_sub_ps(values, _mm512_set1_ps(zero)), _mm512_set1_ps(matrix.scales[at]));
      }
      for (int64_t left = matrix.block / 2; left > 0; left -= 64, codes += 64, x += kChunk) {
        __m512i word[R];
        ORTCONV_UNROLL
        for (int r = 0; r < R; ++r) {
          word[r] = load_codes(codes + r * stride, left);
          ask_ahead(codes + r * stride);
        }
        ORTCONV_UNROLL
        for (int j = 0; j < 8; ++j) {
          __m512 weight[R];
          ORTCONV_UNROLL
          for (int r = 0; r < R; ++r) {
            weight[r] = _mm512_permutexvar_ps(word[r], table[r]);
            word[r] = _mm512_srli_epi32(word[r], 4);
          }
          ORTCONV_UNROLL
          for (int m = 0; m < M; ++m) {
            const __m512 xm = _mm512_load_ps(x + m * ldx + 16 * j);
            ORTCONV_UNROLL
            for (int r = 0; r < R; ++r) {
              sums[j % kChains][m][r] = _mm512_fmadd_ps(weight[r], xm, sums[j % kChains][m][r]);
            }
          }
        }
      }
    }
    ORTCONV_UNROLL
    for (int m = 0; m < M * R && kChains == 2; ++m) {
      sums[0][m / R][m % R] = _mm512_add_ps(sums[0][m / R][m % R], sums[kChains - 1][m / R][m % R]);
    }
    store_sums(args, n, i, sums[0]);
  }
};

// Codes of 4 bits with several blocks in a chunk: differences to the zero points are looked up, and every lane has the
// scale of its block.
template <Code kCode, bool kHasZeros>
struct NibbleBlocksDot {
  // The scales, and the zero points as bytes, of 16 lanes whose first is of block `at` of the matrix.
  struct Lanes {
    explicit Lanes(const CompressedMatrix& matrix) : lanes_per_block(static_cast<int>(matrix.block / 8)) {
      const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
      block_of = _mm512_srlv_epi32(lane, _mm512_set1_epi32(lanes_per_block == 8 ? 3 : lanes_per_block == 4 ? 2 : 1));
      byte_of = _mm512_mullo_epi32(block_of, _mm512_set1_epi32(0x01010101));
    }
    __m512 scales(const CompressedMatrix& matrix, int64_t at, int64_t count) const {
      const auto there = static_cast<__mmask8>((1u << count) - 1);
      return _mm512_permutexvar_ps(block_of, _mm512_castps256_ps512(_mm256_maskz_loadu_ps(there, matrix.scales + at)));
    }
    __m512i zeros(const CompressedMatrix& matrix, int64_t at, int64_t count) const {
      const auto there = static_cast<__mmask16>((1u << (at % 2 + count + 1) / 2) - 1);
      const __m128i packed = _mm_maskz_loadu_epi8(there, static_cast<const uint8_t*>(matrix.zeros) + at / 2);
      const __m128i nibbles = _mm_srl_epi64(packed, _mm_cvtsi32_si128(static_cast<int>(at % 2 * 4)));
      const __m128i pairs = _mm_cvtepu8_epi16(nibbles);
      const __m128i bytes = _mm_and_si128(_mm_or_si128(pairs, _mm_slli_epi16(pairs, 4)), _mm_set1_epi8(15));
      return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(bytes), byte_of);
    }
    int lanes_per_block;
    __m512i block_of, byte_of;
  };

  template <int M, int R>
  static void rows(const DotArgs& args, int64_t n, int64_t i) {
    const CompressedMatrix& matrix = *args.matrix;
    const int64_t blocks = matrix.k / matrix.block, stride = matrix.k / 2, ldx = args.ldx;
    const Lanes lanes(matrix);
    const int64_t per_chunk = 16 / lanes.lanes_per_block;
    // 4 bits with a sign are those without one, less 8.
    const __m512i flip = _mm512_set1_epi8(kCode == Code::kS4 ? static_cast<char>(0x88) : 0);
    const __m512i flip_zero = _mm512_set1_epi8(kCode == Code::kS4 ? 8 : 0), low = _mm512_set1_epi8(15);
    const __m512 values = nibble_values<kHasZeros ? Code::kU4 : kCode>();
    const __m512 negative = _mm512_sub_ps(values, _mm512_set1_ps(16));
    const auto* codes = static_cast<const uint8_t*>(matrix.codes) + n * stride;
    const float* x = args.x + i * ldx;
    __m512 sums[M][R];
    ORTCONV_UNROLL
    for (int m = 0; m < M * R; ++m) sums[m / R][m % R] = _mm512_setzero_ps();
    for (int64_t b = 0, left = stride; left > 0; b += per_chunk, left -= 64, codes += 64, x += kChunk) {
      const int64_t count = std::min(per_chunk, blocks - b);
      ORTCONV_UNROLL
      for (int r = 0; r < R; ++r) {
        const int64_t at = (n + r) * blocks + b;
        const __m512 scales = lanes.scales(matrix, at, count);
        __m512i word = load_codes(codes + r * stride, left), upper = word;
        ask_ahead(codes + r * stride);
        if constexpr (kHasZeros) {
          const __m512i zeros = _mm512_xor_si512(lanes.zeros(matrix, at, count), flip_zero);
          word = _mm512_xor_si512(word, flip);
          upper = _mm512_sub_epi8(_mm512_and_si512(_mm512_srli_epi32(word, 4), low), zeros);
          word = _mm512_sub_epi8(_mm512_and_si512(word, low), zeros);
        }
        __m512 part[M];
        ORTCONV_UNROLL
        for (int j = 0; j < 8; ++j) {
          __m512 weight;
          if constexpr (kHasZeros) {
            __m512i& from = j % 2 == 0 ? word : upper;
            weight = _mm512_permutex2var_ps(values, from, negative);
            from = _mm512_srli_epi32(from, 8);
          } else {
            weight = _mm512_permutexvar_ps(word, values);
            word = _mm512_srli_epi32(word, 4);
          }
          ORTCONV_UNROLL
          for (int m = 0; m < M; ++m) {
            const __m512 xm = _mm512_load_ps(x + m * ldx + 16 * j);
            part[m] = j == 0 ? _mm512_mul_ps(weight, xm) : _mm512_fmadd_ps(weight, xm, part[m]);
          }
        }
        ORTCONV_UNROLL
        for (int m = 0; m < M; ++m) sums[m][r] = _mm512_fmadd_ps(part[m], scales, sums[m][r]);
      }
    }
    store_sums(args, n, i, sums);
  }
};

// Codes of 8 bits, 16 at a time. With one block to a row its scale is left to the end.
template <Code kCode, bool kIsOneBlock>
struct BytesDot {
  static __m512i widened(__m128i codes) {
    return kCode == Code::kS8 ? _mm512_cvtepi8_epi32(codes) : _mm512_cvtepu8_epi32(codes);
  }

  template <int M, int R>
  static void rows(const DotArgs& args, int64_t n, int64_t i) {
    const CompressedMatrix& matrix = *args.matrix;
    const int64_t blocks = matrix.k / matrix.block, block = matrix.block, ldx = args.ldx;
    const auto* codes = static_cast<const uint8_t*>(matrix.codes) + n * matrix.k;
    const float* x = args.x + i * ldx;
    __m512 sums[M][R], scales[R];
    ORTCONV_UNROLL
    for (int m = 0; m < M * R; ++m) sums[m / R][m % R] = _mm512_setzero_ps();
    for (int64_t b = 0; b < blocks; ++b, codes += block, x += block) {
      __m512i zeros[R];
      ORTCONV_UNROLL
      for (int r = 0; r < R; ++r) {
        zeros[r] = _mm512_set1_epi32(zero_at<kCode>(matrix, (n + r) * blocks + b));
        scales[r] = _mm512_set1_ps(matrix.scales[(n + r) * blocks + b]);
      }
      const auto add_products = [&](int64_t k, auto load) {
        __m512 weight[R];
        ORTCONV_UNROLL
        for (int r = 0; r < R; ++r) {
          weight[r] = _mm512_cvtepi32_ps(_mm512_sub_epi32(widened(load(codes + r * matrix.k + k)), zeros[r]));
          if constexpr (!kIsOneBlock) weight[r] = _mm512_mul_ps(weight[r], scales[r]);
        }
        ORTCONV_UNROLL
        for (int m = 0; m < M; ++m) {
          const __m512 xm = _mm512_load_ps(x + m * ldx + k);
          ORTCONV_UNROLL
          for (int r = 0; r < R; ++r) sums[m][r] = _mm512_fmadd_ps(weight[r], xm, sums[m][r]);
        }
      };
      int64_t k = 0;
      for (; k + 16 <= block; k += 16) {
        if (k % 64 == 0) {
          ORTCONV_UNROLL
          for (int r = 0; r < R; ++r) ask_ahead(codes + r * matrix.k + k);
        }
        add_products(k, [](const uint8_t* at) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(at)); });
      }
      if (k < block) {
        const auto rest = static_cast<__mmask16>((1u << (block - k)) - 1);
        add_products(k, [=](const uint8_t* at) { return _mm_maskz_loadu_epi8(rest, at); });
      }
    }
    ORTCONV_UNROLL
    for (int m = 0; m < M * R && kIsOneBlock; ++m)
      sums[m / R][m % R] = _mm512_mul_ps(sums[m / R][m % R], scales[m % R]);
    store_sums(args, n, i, sums);
  }
};

constexpr int kMostDotRows = 8;  // of x at a time

template <class Dot, int M>
void some_rows(const DotArgs& args, int64_t n, int64_t rows, int64_t i) {
  constexpr int kRows = M <= 4 ? 4 : 2;
  int64_t r = 0;
  for (; r + kRows <= rows; r += kRows) Dot::template rows<M, kRows>(args, n + r, i);
  for (; r < rows; ++r) Dot::template rows<M, 1>(args, n + r, i);
}

template <class Dot>
void all_rows(const DotArgs& args) {
  constexpr void (*kSome[])(const DotArgs&, int64_t, int64_t, int64_t) = {
      some_rows<Dot, 1>, some_rows<Dot, 2>, some_rows<Dot, 3>, some_rows<Dot, 4>,
      some_rows<Dot, 5>, some_rows<Dot, 6>, some_rows<Dot, 7>, some_rows<Dot, 8>};
  // A few rows of the matrix stay in the cache for all rows of x.
  constexpr int64_t kRows = 4;
  const int64_t groups = (args.m + kMostDotRows - 1) / kMostDotRows;
  for (int64_t n = args.first; n < args.last; n += kRows) {
    for (int64_t group = 0; group < groups; ++group) {
      const int64_t begin = args.m * group / groups, end = args.m * (group + 1) / groups;
      kSome[end - begin - 1](args, n, std::min(kRows, args.last - n), begin);
    }
  }
}

}  // namespace
}  // namespace ortconv::kernels

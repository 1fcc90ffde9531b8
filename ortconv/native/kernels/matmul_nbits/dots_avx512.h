// Dot products with codes in AVX-512. Only for files named after it.
//
// A register of 16 floats is a table that four bits index: a lookup turns 16 codes into weights. 64 bytes of a row are
// 16 numbers of 32 bits with 8 codes each, so 8 lookups, with shifts between them, take them all. Lane i of lookup j
// holds the code 8 i + j, and x is arranged to match.
#pragma once

#include <immintrin.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "kernels/matmul_nbits/codes.h"
#include "kernels/matmul_nbits/stages.h"
#include "kernels/unroll.h"
#include "kernels/vector_avx512.h"

namespace ortconv::kernels {
namespace {

constexpr int64_t kChunk = kDotGranule;  // codes of 4 bits in 64 bytes
// How far ahead of its use a matrix is asked for, at least, in bytes.
constexpr int64_t kCodesAhead = 12288;

// kNibbles: blocks of whole chunks, or one for the row; kNibbleBlocks: several blocks in a chunk.
enum class Way { kBytes, kNibbles, kNibbleBlocks, kOther };

inline Way way_of(const QuantizedMatrix& matrix) {
  const int64_t block = matrix.block;
  if (bits_of(matrix.code) == 8) return block % 16 == 0 || block == matrix.k ? Way::kBytes : Way::kOther;
  if (matrix.k % 2 != 0) return Way::kOther;
  if (block % kChunk == 0 || block == matrix.k) return Way::kNibbles;
  return block == 16 || block == 32 || block == 64 ? Way::kNibbleBlocks : Way::kOther;
}

// Vectors of 16 numbers of one row after the other, and those of the same k of all rows together.
inline void arrange_bytes(int64_t k, int64_t m, const float* x, float* out) {
  for (int64_t begin = 0; begin < k; begin += 16) {
    const auto there = static_cast<__mmask16>((1u << std::min<int64_t>(k - begin, 16)) - 1);
    for (int64_t i = 0; i < m; ++i, out += 16) {
      _mm512_store_ps(out, _mm512_maskz_loadu_ps(there, x + i * k + begin));
    }
  }
}

// The lanes of vector j that have some of so many codes.
inline __mmask16 lanes_of(int64_t codes, int64_t j) {
  return static_cast<__mmask16>((1u << std::clamp<int64_t>((codes - j + 7) / 8, 0, 16)) - 1);
}

inline void arrange_nibbles(int64_t k, int64_t m, const float* x, float* out) {
  const __m512i eighth = _mm512_setr_epi32(0, 8, 16, 24, 32, 40, 48, 56, 64, 72, 80, 88, 96, 104, 112, 120);
  for (int64_t begin = 0; begin < k; begin += kChunk) {
    for (int64_t j = 0; j < 8; ++j) {
      const __mmask16 there = lanes_of(k - begin, j);
      for (int64_t i = 0; i < m; ++i, out += 16) {
        _mm512_store_ps(out, _mm512_mask_i32gather_ps(_mm512_setzero_ps(), there, eighth, x + i * k + begin + j, 4));
      }
    }
  }
}

// What 4 bits stand for.
template <Code kCode>
__m512 nibble_values([[maybe_unused]] const QuantizedMatrix& matrix) {
  if constexpr (kCode == Code::kTable) {
    return _mm512_loadu_ps(matrix.table);
  } else if constexpr (kCode == Code::kS4) {
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

constexpr int kRows = 4;  // of the matrix at a time

// Which rows to ask for while others are read: the same part of some that come at least kCodesAhead bytes later.
inline int64_t rows_ahead(int64_t row_bytes) {
  return kRows * std::max<int64_t>(1, (kCodesAhead + kRows * row_bytes - 1) / (kRows * row_bytes));
}

inline void ask_for(const uint8_t* codes) { _mm_prefetch(reinterpret_cast<const char*>(codes), _MM_HINT_T0); }

// Scales and zero points are short rows of their own, which are as far away as the codes.
inline void ask_for_blocks(const QuantizedMatrix& matrix, int64_t n, int64_t rows) {
  const int64_t blocks = matrix.k / matrix.block;
  const auto ask = [](const void* from, int64_t begin, int64_t end) {
    for (int64_t line = begin; line < end; line += 64) {
      _mm_prefetch(static_cast<const char*>(from) + line, _MM_HINT_T0);
    }
  };
  ask(matrix.scales, n * blocks * 4, (n + rows) * blocks * 4);
  if (matrix.zeros == nullptr) return;
  const int bits = bits_of(matrix.code);
  ask(matrix.zeros, n * blocks * bits / 8, (n + rows) * blocks * bits / 8);
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
void store_sums(const DotArgs& args, int64_t n, const __m512 (&sums)[M][R]) {
  ORTCONV_UNROLL
  for (int m = 0; m < M; ++m) {
    float* y = args.y[m] + n - args.first;
    if constexpr (R == 4) {
      const __m128 of_rows = sums_of(sums[m][0], sums[m][1], sums[m][2], sums[m][3]);
      _mm_storeu_ps(y, args.begin > 0 ? _mm_add_ps(of_rows, _mm_loadu_ps(y)) : of_rows);
    } else {
      ORTCONV_UNROLL
      for (int r = 0; r < R; ++r) {
        const float sum = _mm512_reduce_add_ps(sums[m][r]);
        y[r] = args.begin > 0 ? sum + y[r] : sum;
      }
    }
  }
}

// Codes of 4 bits in blocks of whole chunks: the tables hold the weights themselves.
template <Code kCode>
struct NibblesDot {
  template <int M, int R>
  static void rows(const DotArgs& args, int64_t n) {
    constexpr int kChains = M * R < 8 ? 2 : 1;  // at least 8 independent sums hide the latency of an FMA
    const QuantizedMatrix& matrix = *args.matrix;
    const int64_t blocks = matrix.k / matrix.block, stride = matrix.k / 2;
    const int64_t ahead = rows_ahead(stride) * stride;
    const __m512 values = nibble_values<kCode>(matrix);
    const auto* codes = static_cast<const uint8_t*>(matrix.codes) + n * stride + args.begin / 2;
    const float* x = args.x + M * args.begin;
    __m512 sums[kChains][M][R];
    ORTCONV_UNROLL
    for (int m = 0; m < kChains * M * R; ++m) sums[m % kChains][m / kChains / R][m / kChains % R] = _mm512_setzero_ps();
    for (int64_t k = args.begin; k < args.end;) {
      const int64_t b = k / matrix.block, stop = std::min((b + 1) * matrix.block, args.end);
      __m512 table[R];
      ORTCONV_UNROLL
      for (int r = 0; r < R; ++r) {
        const int64_t at = (n + r) * blocks + b;
        const auto zero = static_cast<float>(zero_at<kCode>(matrix, at));
        table[r] = _mm512_mul_ps(_mm512_sub_ps(values, _mm512_set1_ps(zero)), _mm512_set1_ps(matrix.scales[at]));
      }
      // Weights of lanes that are not there are zeros, whatever the table has.
      const auto add_products = [&](auto load, auto there) {
        __m512i word[R];
        ORTCONV_UNROLL
        for (int r = 0; r < R; ++r) {
          word[r] = load(codes + r * stride);
          ask_for(codes + r * stride + ahead);
        }
        ORTCONV_UNROLL
        for (int j = 0; j < 8; ++j) {
          __m512 weight[R];
          ORTCONV_UNROLL
          for (int r = 0; r < R; ++r) {
            weight[r] = _mm512_maskz_permutexvar_ps(there(j), word[r], table[r]);
            word[r] = _mm512_srli_epi32(word[r], 4);
          }
          ORTCONV_UNROLL
          for (int m = 0; m < M; ++m) {
            const __m512 xm = _mm512_load_ps(x + 16 * (M * j + m));
            ORTCONV_UNROLL
            for (int r = 0; r < R; ++r) {
              sums[j % kChains][m][r] = _mm512_fmadd_ps(weight[r], xm, sums[j % kChains][m][r]);
            }
          }
        }
      };
      for (; k + kChunk <= stop; k += kChunk, codes += 64, x += M * kChunk) {
        add_products([](const uint8_t* at) { return _mm512_loadu_si512(at); }, [](int) { return __mmask16{0xffff}; });
      }
      if (k < stop) {
        const auto there = [=](int j) { return lanes_of(stop - k, j); };
        add_products([=](const uint8_t* at) { return load_codes(at, (stop - k) / 2); }, there);
        k = stop;
      }
    }
    ORTCONV_UNROLL
    for (int m = 0; m < M * R && kChains == 2; ++m) {
      sums[0][m / R][m % R] = _mm512_add_ps(sums[0][m / R][m % R], sums[kChains - 1][m / R][m % R]);
    }
    store_sums(args, n, sums[0]);
  }
};

// Codes of 4 bits with kPerChunk blocks in a chunk: differences to the zero points are looked up, and every lane has
// the scale of its block.
template <Code kCode, int kPerChunk, bool kHasZeros>
struct NibbleBlocksDot {
  static_assert(kPerChunk == 2 || kPerChunk == 4 || kPerChunk == 8);

  // Loads with a mask are slow where no cache holds the line; only the last of a row's may need one.
  static __m512 scales(const float* scales, int64_t count, __m512i block_of) {
    __m256 few;
    if (count < kPerChunk) {
      few = _mm256_maskz_loadu_ps(static_cast<__mmask8>((1u << count) - 1), scales);
    } else if constexpr (kPerChunk == 2) {
      few = _mm256_castsi256_ps(_mm256_castsi128_si256(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(scales))));
    } else if constexpr (kPerChunk == 4) {
      few = _mm256_castps128_ps256(_mm_loadu_ps(scales));
    } else {
      few = _mm256_loadu_ps(scales);
    }
    return _mm512_permutexvar_ps(block_of, _mm512_castps256_ps512(few));
  }

  // The zero points of `count` blocks from block `at` of the matrix on, four bits each.
  static uint32_t zeros(const void* zeros, int64_t at, int64_t count) {
    using Packed = std::conditional_t<kPerChunk == 2, uint8_t, std::conditional_t<kPerChunk == 4, uint16_t, uint32_t>>;
    if (at % 2 != 0 || count < kPerChunk) return few_zeros(zeros, at, count);
    Packed packed;
    std::memcpy(&packed, static_cast<const uint8_t*>(zeros) + at / 2, sizeof(packed));
    return packed;
  }
  // A function of its own, so that the rare case takes no registers from the usual one.
  ORTCONV_NEVER_INLINE static uint32_t few_zeros(const void* zeros, int64_t at, int64_t count) {
    return packed_nibbles(zeros, at, count);
  }

  template <int M, int R>
  static void rows(const DotArgs& args, int64_t n) {
    const QuantizedMatrix& matrix = *args.matrix;
    const int64_t blocks = matrix.k / matrix.block, stride = matrix.k / 2;
    const int64_t ahead = rows_ahead(stride) * stride;
    const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const __m512i block_of = _mm512_srli_epi32(lane, kPerChunk == 2 ? 3 : kPerChunk == 4 ? 2 : 1);
    const __m512i bit_of = _mm512_slli_epi32(block_of, 2);
    const __m512 values = nibble_values<kCode>(matrix);
    const auto* codes = static_cast<const uint8_t*>(matrix.codes) + n * stride + args.begin / 2;
    const float* x = args.x + M * args.begin;
    __m512 sums[M][R];
    ORTCONV_UNROLL
    for (int m = 0; m < M * R; ++m) sums[m / R][m % R] = _mm512_setzero_ps();
    for (int64_t k = args.begin; k < args.end; k += kChunk, codes += 64, x += M * kChunk) {
      const int64_t b = k / matrix.block, left = (args.end - k) / 2;
      const int64_t count = std::min<int64_t>(kPerChunk, blocks - b);
      [[maybe_unused]] const __mmask16 there = left >= kChunk / 2 ? 0xffff : lanes_of(args.end - k, 0);
      ORTCONV_UNROLL
      for (int r = 0; r < R; ++r) {
        const int64_t at = (n + r) * blocks + b;
        const __m512 scale = scales(matrix.scales + at, count, block_of);
        [[maybe_unused]] __m512 zero;
        if constexpr (kHasZeros) {
          const uint32_t packed = zeros(matrix.zeros, at, count);
          zero = _mm512_permutexvar_ps(_mm512_srlv_epi32(_mm512_set1_epi32(static_cast<int>(packed)), bit_of), values);
        }
        __m512i word = load_codes(codes + r * stride, left);
        ask_for(codes + r * stride + ahead);
        __m512 part[M];
        ORTCONV_UNROLL
        for (int j = 0; j < 8; ++j) {
          __m512 weight = _mm512_permutexvar_ps(word, values);
          word = _mm512_srli_epi32(word, 4);
          if constexpr (kHasZeros) weight = _mm512_sub_ps(weight, zero);
          ORTCONV_UNROLL
          for (int m = 0; m < M; ++m) {
            const __m512 xm = _mm512_load_ps(x + 16 * (M * j + m));
            part[m] = j == 0 ? _mm512_mul_ps(weight, xm) : _mm512_fmadd_ps(weight, xm, part[m]);
          }
        }
        ORTCONV_UNROLL
        for (int m = 0; m < M; ++m) {
          if constexpr (kCode == Code::kTable) {  // whose first number need not be finite
            sums[m][r] = _mm512_mask3_fmadd_ps(part[m], scale, sums[m][r], there);
          } else {
            sums[m][r] = _mm512_fmadd_ps(part[m], scale, sums[m][r]);
          }
        }
      }
    }
    store_sums(args, n, sums);
  }
};

// Codes of 8 bits, 16 at a time. With one block to a row its scale is left to the end.
template <Code kCode, bool kIsOneBlock>
struct BytesDot {
  static __m512i widened(__m128i codes) {
    return kCode == Code::kS8 ? _mm512_cvtepi8_epi32(codes) : _mm512_cvtepu8_epi32(codes);
  }

  template <int M, int R>
  static void rows(const DotArgs& args, int64_t n) {
    const QuantizedMatrix& matrix = *args.matrix;
    const int64_t blocks = matrix.k / matrix.block, ahead = rows_ahead(matrix.k) * matrix.k;
    const auto* codes = static_cast<const uint8_t*>(matrix.codes) + n * matrix.k + args.begin;
    const float* x = args.x + M * args.begin;
    __m512 sums[M][R], scales[R];
    ORTCONV_UNROLL
    for (int m = 0; m < M * R; ++m) sums[m / R][m % R] = _mm512_setzero_ps();
    for (int64_t begin = args.begin, block; begin < args.end; begin += block, codes += block, x += M * block) {
      const int64_t b = begin / matrix.block;
      block = std::min((b + 1) * matrix.block, args.end) - begin;
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
          const __m512 xm = _mm512_load_ps(x + M * k + 16 * m);
          ORTCONV_UNROLL
          for (int r = 0; r < R; ++r) sums[m][r] = _mm512_fmadd_ps(weight[r], xm, sums[m][r]);
        }
      };
      int64_t k = 0;
      for (; k + 16 <= block; k += 16) {
        if (k % 64 == 0) {
          ORTCONV_UNROLL
          for (int r = 0; r < R; ++r) ask_for(codes + r * matrix.k + k + ahead);
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
    store_sums(args, n, sums);
  }
};

constexpr int kDotRows = 4;

template <class Dot, int M>
void some_rows(const DotArgs& args) {
  const QuantizedMatrix& matrix = *args.matrix;
  const int64_t ahead = rows_ahead(matrix.k * bits_of(matrix.code) / 8);
  int64_t n = args.first;
  for (; n + kRows <= args.last; n += kRows) {
    ask_for_blocks(matrix, n + ahead, kRows);
    Dot::template rows<M, kRows>(args, n);
  }
  for (; n < args.last; ++n) Dot::template rows<M, 1>(args, n);
}

template <class Dot>
void all_rows(const DotArgs& args) {
  static constexpr void (*kSome[kDotRows])(const DotArgs&) = {some_rows<Dot, 1>, some_rows<Dot, 2>, some_rows<Dot, 3>,
                                                              some_rows<Dot, 4>};
  kSome[args.m - 1](args);
}

}  // namespace
}  // namespace ortconv::kernels

// Vectors of phases that alternate in memory, in AVX2. Only for files named after it.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "kernels/unroll.h"

namespace ortconv::kernels::avx2 {

ORTCONV_ALWAYS_INLINE inline void shuffle_two(__m256* row) {
  const __m256 low = _mm256_unpacklo_ps(row[0], row[1]), high = _mm256_unpackhi_ps(row[0], row[1]);
  row[0] = _mm256_permute2f128_ps(low, high, 0x20), row[1] = _mm256_permute2f128_ps(low, high, 0x31);
}
ORTCONV_ALWAYS_INLINE inline void shuffle_two(__m256d* row) {
  const __m256d low = _mm256_unpacklo_pd(row[0], row[1]), high = _mm256_unpackhi_pd(row[0], row[1]);
  row[0] = _mm256_permute2f128_pd(low, high, 0x20), row[1] = _mm256_permute2f128_pd(low, high, 0x31);
}

// Three vectors of 32-bit words.
struct ShuffleThree {
  alignas(32) int32_t index[3][8];
  alignas(32) int32_t phase[3][3][8];  // [v][p]: all bits of the words that phase p fills

  // Word w of vector v is element (8 v + w) / 3 of phase (8 v + w) % 3.
  constexpr ShuffleThree() : index{}, phase{} {
    for (int v = 0; v < 3; ++v) {
      for (int word = 0; word < 8; ++word) {
        const int element = 8 * v + word;
        index[v][word] = element / 3;
        phase[v][element % 3][word] = -1;
      }
    }
  }
};

ORTCONV_ALWAYS_INLINE inline void shuffle_three(__m256* row) {
  static constexpr ShuffleThree kShuffle;
  const auto words = [](const int32_t* from) { return _mm256_load_si256(reinterpret_cast<const __m256i*>(from)); };
  __m256 out[3];
  ORTCONV_UNROLL
  for (int v = 0; v < 3; ++v) {
    const __m256i index = words(kShuffle.index[v]);
    out[v] = _mm256_permutevar8x32_ps(row[0], index);
    ORTCONV_UNROLL
    for (int p = 1; p < 3; ++p) {
      out[v] = _mm256_blendv_ps(out[v], _mm256_permutevar8x32_ps(row[p], index),
                                _mm256_castsi256_ps(words(kShuffle.phase[v][p])));
    }
  }
  ORTCONV_UNROLL
  for (int v = 0; v < 3; ++v) row[v] = out[v];
}
ORTCONV_ALWAYS_INLINE inline void shuffle_three(__m256d* row) {
  const __m256d even = _mm256_unpacklo_pd(row[0], row[1]);       // a0 b0 a2 b2
  const __m256d mixed = _mm256_shuffle_pd(row[2], row[0], 0xa);  // c0 a1 c2 a3
  const __m256d odd = _mm256_unpackhi_pd(row[1], row[2]);        // b1 c1 b3 c3
  row[0] = _mm256_permute2f128_pd(even, mixed, 0x20);
  row[1] = _mm256_permute2f128_pd(odd, even, 0x30);
  row[2] = _mm256_permute2f128_pd(mixed, odd, 0x31);
}

// Six vectors: pairs of phases, whose elements are words of 64 bits.
ORTCONV_ALWAYS_INLINE inline void shuffle_six(__m256* row) {
  __m256d half[2][3];
  ORTCONV_UNROLL
  for (int pair = 0; pair < 3; ++pair) {
    __m256* const two = row + 2 * pair;
    shuffle_two(two);
    half[0][pair] = _mm256_castps_pd(two[0]), half[1][pair] = _mm256_castps_pd(two[1]);
  }
  ORTCONV_UNROLL
  for (int h = 0; h < 2; ++h) {
    shuffle_three(half[h]);
    ORTCONV_UNROLL
    for (int v = 0; v < 3; ++v) row[3 * h + v] = _mm256_castpd_ps(half[h][v]);
  }
}

// Of P = 1 to 4 or 6 vectors of L elements, a phase each, what their elements make in turns. Six are of floats.
template <int P, int L, class Vector>
ORTCONV_ALWAYS_INLINE inline void shuffle(Vector* row) {
  static_assert((P >= 1 && P <= 4) || P == 6);
  if constexpr (P == 2) {
    shuffle_two(row);
  } else if constexpr (P == 3) {
    shuffle_three(row);
  } else if constexpr (P == 4) {
    Vector half[2][2] = {{row[0], row[2]}, {row[1], row[3]}};
    shuffle_two(half[0]);
    shuffle_two(half[1]);
    ORTCONV_UNROLL
    for (int v = 0; v < 2; ++v) {
      row[2 * v] = half[0][v], row[2 * v + 1] = half[1][v];
      shuffle_two(row + 2 * v);
    }
  } else if constexpr (P == 6) {
    shuffle_six(row);
  }
}

}  // namespace ortconv::kernels::avx2

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

// Three vectors, 32-bit word by word: a word is the `half` of element (L v + l) / 3 of phase (L v + l) % 3, for the
// vectors v and the lanes l of L elements.
template <int L>
struct ShuffleThree {
  static constexpr int kWords = 8 / L;  // of an element
  alignas(32) int32_t index[3][8];
  alignas(32) int32_t phase[3][3][8];  // [v][p]: all bits of the words that phase p fills

  constexpr ShuffleThree() : index{}, phase{} {
    for (int v = 0; v < 3; ++v) {
      for (int word = 0; word < 8; ++word) {
        const int element = L * v + word / kWords;
        index[v][word] = element / 3 * kWords + word % kWords;
        phase[v][element % 3][word] = -1;
      }
    }
  }
};

template <int L>
ORTCONV_ALWAYS_INLINE inline void shuffle_three(__m256* row) {
  static constexpr ShuffleThree<L> kShuffle;
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
template <int L>
ORTCONV_ALWAYS_INLINE inline void shuffle_three(__m256d* row) {
  __m256 words[3] = {_mm256_castpd_ps(row[0]), _mm256_castpd_ps(row[1]), _mm256_castpd_ps(row[2])};
  shuffle_three<L>(words);
  ORTCONV_UNROLL
  for (int v = 0; v < 3; ++v) row[v] = _mm256_castps_pd(words[v]);
}

// Of P = 1 to 4 vectors of L elements, a phase each, what their elements make in turns.
template <int P, int L, class Vector>
ORTCONV_ALWAYS_INLINE inline void shuffle(Vector* row) {
  static_assert(P >= 1 && P <= 4);
  if constexpr (P == 2) {
    shuffle_two(row);
  } else if constexpr (P == 3) {
    shuffle_three<L>(row);
  } else if constexpr (P == 4) {
    Vector half[2][2] = {{row[0], row[2]}, {row[1], row[3]}};
    shuffle_two(half[0]);
    shuffle_two(half[1]);
    ORTCONV_UNROLL
    for (int v = 0; v < 2; ++v) {
      row[2 * v] = half[0][v], row[2 * v + 1] = half[1][v];
      shuffle_two(row + 2 * v);
    }
  }
}

}  // namespace ortconv::kernels::avx2

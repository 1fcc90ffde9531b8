// Vectors of phases that alternate in memory, in AVX-512. Only for files named after it.
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <type_traits>

#include "kernels/unroll.h"

namespace ortconv::kernels::avx512 {

// Of every output vector v: lane l is element (L v + l) / P of phase (L v + l) % P.
template <int P, int L>
struct Shuffle {
  using Index = std::conditional_t<L == 16, int32_t, int64_t>;
  using Mask = std::conditional_t<L == 16, __mmask16, __mmask8>;
  alignas(64) Index pair[P][L];  // among the elements of phases 0 and 1
  alignas(64) Index index[P][L];
  Mask phase[P][P];  // [v][p]: the lanes of vector v that phase p fills

  constexpr Shuffle() : pair{}, index{}, phase{} {
    for (int v = 0; v < P; ++v) {
      for (int l = 0; l < L; ++l) {
        const int p = (L * v + l) % P;
        index[v][l] = (L * v + l) / P;
        pair[v][l] = index[v][l] + (p == 1 ? L : 0);
        phase[v][p] |= static_cast<Mask>(1u << l);
      }
    }
  }
};

inline __m512 permute(__m512 otherwise, __mmask16 lanes, __m512i index, __m512 v) {
  return _mm512_mask_permutexvar_ps(otherwise, lanes, index, v);
}
inline __m512d permute(__m512d otherwise, __mmask8 lanes, __m512i index, __m512d v) {
  return _mm512_mask_permutexvar_pd(otherwise, lanes, index, v);
}
inline __m512 permute(__m512 a, __m512i index, __m512 b) { return _mm512_permutex2var_ps(a, index, b); }
inline __m512d permute(__m512d a, __m512i index, __m512d b) { return _mm512_permutex2var_pd(a, index, b); }

// Of P vectors of L elements, a phase each, what their elements make in turns.
template <int P, int L, class Vector>
ORTCONV_ALWAYS_INLINE inline void shuffle(Vector* row) {
  static constexpr Shuffle<P, L> kShuffle;
  Vector out[P];
  if constexpr (P == 1) return;
  if constexpr (P > 2 && P % 2 == 0) {
    Vector half[2][P / 2];
    ORTCONV_UNROLL
    for (int p = 0; p < P; ++p) half[p % 2][p / 2] = row[p];
    shuffle<P / 2, L>(half[0]);
    shuffle<P / 2, L>(half[1]);
    ORTCONV_UNROLL
    for (int v = 0; v < P / 2; ++v) {
      Vector two[2] = {half[0][v], half[1][v]};
      shuffle<2, L>(two);
      out[2 * v] = two[0], out[2 * v + 1] = two[1];
    }
  } else {
    ORTCONV_UNROLL
    for (int v = 0; v < P; ++v) {
      out[v] = permute(row[0], _mm512_load_si512(kShuffle.pair[v]), row[P > 1 ? 1 : 0]);
      ORTCONV_UNROLL
      for (int p = 2; p < P; ++p) {
        out[v] = permute(out[v], kShuffle.phase[v][p], _mm512_load_si512(kShuffle.index[v]), row[p]);
      }
    }
  }
  ORTCONV_UNROLL
  for (int v = 0; v < P; ++v) row[v] = out[v];
}

}  // namespace ortconv::kernels::avx512

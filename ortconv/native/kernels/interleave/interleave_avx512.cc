#if defined(__AVX512F__)

#include <immintrin.h>

#include "kernels/interleave/interleave.h"

namespace ortconv::kernels {

void interleave_f32_generic(const float* const* src, int64_t phases, int64_t n, float bias, float* dst);

namespace {

constexpr int kLanes = 16;

// Lane l of output vector v is element (16v + l) / P of phase (16v + l) % P.
template <int P>
struct Shuffle {
  alignas(64) int32_t index[P][kLanes];
  __mmask16 phase[P][P];  // [v][p]: the lanes of vector v that phase p fills

  constexpr Shuffle() : index{}, phase{} {
    for (int v = 0; v < P; ++v) {
      for (int l = 0; l < kLanes; ++l) {
        index[v][l] = (kLanes * v + l) / P;
        phase[v][(kLanes * v + l) % P] |= static_cast<__mmask16>(1u << l);
      }
    }
  }
};

template <int P>
void interleave(const float* const* src, int64_t n, float bias, float* dst) {
  static constexpr Shuffle<P> kShuffle;
  const __m512 bias16 = _mm512_set1_ps(bias);
  for (int64_t i = 0; i < n; i += kLanes, dst += kLanes * P) {
    const int64_t left = n - i;
    const __mmask16 load = left >= kLanes ? 0xffff : static_cast<__mmask16>((1u << left) - 1);
    __m512 row[P];
    for (int p = 0; p < P; ++p) row[p] = _mm512_add_ps(_mm512_maskz_loadu_ps(load, src[p] + i), bias16);
    for (int v = 0; v < P; ++v) {
      const __m512i index = _mm512_load_si512(kShuffle.index[v]);
      __m512 out = row[0];
      if constexpr (P > 1) {
        out = _mm512_maskz_permutexvar_ps(kShuffle.phase[v][0], index, row[0]);
        for (int p = 1; p < P; ++p) out = _mm512_mask_permutexvar_ps(out, kShuffle.phase[v][p], index, row[p]);
      }
      const int64_t room = left * P - kLanes * v;
      if (room >= kLanes) {
        _mm512_storeu_ps(dst + kLanes * v, out);
      } else if (room > 0) {
        _mm512_mask_storeu_ps(dst + kLanes * v, static_cast<__mmask16>((1u << room) - 1), out);
      }
    }
  }
}

}  // namespace

void interleave_f32_avx512(const float* const* src, int64_t phases, int64_t n, float bias, float* dst) {
  switch (phases) {
    case 1: return interleave<1>(src, n, bias, dst);
    case 2: return interleave<2>(src, n, bias, dst);
    case 3: return interleave<3>(src, n, bias, dst);
    case 4: return interleave<4>(src, n, bias, dst);
    case 5: return interleave<5>(src, n, bias, dst);
    case 6: return interleave<6>(src, n, bias, dst);
    case 7: return interleave<7>(src, n, bias, dst);
    case 8: return interleave<8>(src, n, bias, dst);
    default: return interleave_f32_generic(src, phases, n, bias, dst);
  }
}

}  // namespace ortconv::kernels

#endif

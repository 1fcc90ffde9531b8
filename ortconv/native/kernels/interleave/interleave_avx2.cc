#if defined(__AVX2__)

#include <immintrin.h>

#include "kernels/interleave/interleave.h"

namespace ortconv::kernels {

void interleave_f32_generic(const float* const* src, int64_t phases, int64_t n, float bias, float* dst, Store store);

void interleave_f32_avx2(const float* const* src, int64_t phases, int64_t n, float bias, float* dst, Store store) {
  const __m256 bias8 = _mm256_set1_ps(bias);
  int64_t i = 0;
  if (phases == 1) {
    for (; i + 8 <= n; i += 8) _mm256_storeu_ps(dst + i, _mm256_add_ps(_mm256_loadu_ps(src[0] + i), bias8));
    for (; i < n; ++i) dst[i] = src[0][i] + bias;
    return;
  }
  if (phases == 2) {
    for (; i + 8 <= n; i += 8) {
      const __m256 even = _mm256_add_ps(_mm256_loadu_ps(src[0] + i), bias8);
      const __m256 odd = _mm256_add_ps(_mm256_loadu_ps(src[1] + i), bias8);
      const __m256 low = _mm256_unpacklo_ps(even, odd);
      const __m256 high = _mm256_unpackhi_ps(even, odd);
      _mm256_storeu_ps(dst + 2 * i, _mm256_permute2f128_ps(low, high, 0x20));
      _mm256_storeu_ps(dst + 2 * i + 8, _mm256_permute2f128_ps(low, high, 0x31));
    }
    for (; i < n; ++i) {
      dst[2 * i] = src[0][i] + bias;
      dst[2 * i + 1] = src[1][i] + bias;
    }
    return;
  }
  interleave_f32_generic(src, phases, n, bias, dst, store);
}

}  // namespace ortconv::kernels

#endif

#if defined(__AVX2__)

#include <immintrin.h>

#include "kernels/interleave/interleave.h"
#include "kernels/vector_avx2.h"

namespace ortconv::kernels {

template <class T>
void interleave_generic(const Sum<T>* const* src, int64_t phases, int64_t n, Sum<T> bias, T* dst, Store store);

namespace {

// One or two phases. Returns how many elements of each it wrote.
template <class T>
int64_t interleave(const float* const* src, int64_t phases, int64_t n, float bias, T* dst) {
  const __m256 bias8 = _mm256_set1_ps(bias);
  int64_t i = 0;
  if (phases == 1) {
    for (; i + 8 <= n; i += 8) avx2::store(dst + i, _mm256_add_ps(_mm256_loadu_ps(src[0] + i), bias8));
    return i;
  }
  for (; i + 8 <= n; i += 8) {
    const __m256 even = _mm256_add_ps(_mm256_loadu_ps(src[0] + i), bias8);
    const __m256 odd = _mm256_add_ps(_mm256_loadu_ps(src[1] + i), bias8);
    const __m256 low = _mm256_unpacklo_ps(even, odd);
    const __m256 high = _mm256_unpackhi_ps(even, odd);
    avx2::store(dst + 2 * i, _mm256_permute2f128_ps(low, high, 0x20));
    avx2::store(dst + 2 * i + 8, _mm256_permute2f128_ps(low, high, 0x31));
  }
  return i;
}

}  // namespace

template <class T>
void interleave_avx2(const Sum<T>* const* src, int64_t phases, int64_t n, Sum<T> bias, T* dst, Store store) {
  if constexpr (!std::is_same_v<T, double>) {
    if (phases <= 2) {
      const int64_t done = interleave(src, phases, n, bias, dst);
      const float* rest[2] = {src[0] + done, src[phases - 1] + done};
      return interleave_generic(rest, phases, n - done, bias, dst + done * phases, store);
    }
  }
  interleave_generic(src, phases, n, bias, dst, store);
}

template void interleave_avx2(const float* const*, int64_t, int64_t, float, float*, Store);
template void interleave_avx2(const double* const*, int64_t, int64_t, double, double*, Store);
template void interleave_avx2(const float* const*, int64_t, int64_t, float, Float16*, Store);
template void interleave_avx2(const float* const*, int64_t, int64_t, float, Bfloat16*, Store);

}  // namespace ortconv::kernels

#endif

#if defined(__AVX2__)

#include <immintrin.h>

#include <type_traits>

#include "kernels/activate/activate.h"
#include "kernels/vector_avx2.h"

namespace ortconv::kernels {

template <class T>
void activate_generic(const Activation& activation, float bias, int64_t n, float* sums, T);

template <class T>
void activate_avx2(const Activation& activation, float bias, int64_t n, float* sums, T) {
  const __m256 add = _mm256_set1_ps(bias), zero = _mm256_setzero_ps(), slope = _mm256_set1_ps(activation.slope);
  const __m256 minimum = _mm256_set1_ps(activation.minimum), maximum = _mm256_set1_ps(activation.maximum);
  const auto activated = [=](__m256 v) {
    v = _mm256_add_ps(v, add);
    if constexpr (!std::is_same_v<T, float>) v = avx2::widened(T(), avx2::rounded(T(), v));
    // Where an operand is NaN, minimum and maximum are the second one.
    const __m256 sloped = _mm256_blendv_ps(v, _mm256_mul_ps(v, slope), _mm256_cmp_ps(v, zero, _CMP_LT_OQ));
    return _mm256_min_ps(maximum, _mm256_max_ps(minimum, sloped));
  };
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) avx2::store(sums + i, activated(avx2::load(sums + i)));
  if (i < n) activate_generic(activation, bias, n - i, sums + i, T());
}

template void activate_avx2(const Activation&, float, int64_t, float*, float);
template void activate_avx2(const Activation&, float, int64_t, float*, Float16);
template void activate_avx2(const Activation&, float, int64_t, float*, Bfloat16);

}  // namespace ortconv::kernels

#endif

#if defined(__AVX512F__)

#include <immintrin.h>

#include <type_traits>

#include "kernels/activate/activate.h"
#include "kernels/vector_avx512.h"

namespace ortconv::kernels {

template <class T>
void activate_avx512(const Activation& activation, float bias, int64_t n, float* sums, T) {
  const __m512 add = _mm512_set1_ps(bias), zero = _mm512_setzero_ps(), slope = _mm512_set1_ps(activation.slope);
  const __m512 minimum = _mm512_set1_ps(activation.minimum), maximum = _mm512_set1_ps(activation.maximum);
  const auto activated = [=](__m512 v) {
    v = _mm512_add_ps(v, add);
    if constexpr (!std::is_same_v<T, float>) v = avx512::widened(T(), avx512::rounded(T(), v));
    // Where an operand is NaN, minimum and maximum are the second one.
    const __m512 sloped = _mm512_mask_mul_ps(v, _mm512_cmp_ps_mask(v, zero, _CMP_LT_OQ), v, slope);
    return _mm512_min_ps(maximum, _mm512_max_ps(minimum, sloped));
  };
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) avx512::store(sums + i, activated(avx512::load(sums + i)));
  if (i == n) return;
  const __mmask16 rest = avx512::first<float>(n - i);
  avx512::store(rest, sums + i, activated(avx512::load(rest, sums + i)));
}

template void activate_avx512(const Activation&, float, int64_t, float*, float);
template void activate_avx512(const Activation&, float, int64_t, float*, Float16);
template void activate_avx512(const Activation&, float, int64_t, float*, Bfloat16);

}  // namespace ortconv::kernels

#endif

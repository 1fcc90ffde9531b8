#if defined(__AVX512F__)

#include <immintrin.h>

#include "kernels/activate/activate.h"
#include "kernels/activate/activated_avx512.h"
#include "kernels/vector_avx512.h"

namespace ortconv::kernels {

template <class T>
void activate_avx512(const Activation& activation, float bias, int64_t n, float* sums, T) {
  const __m512 add = _mm512_set1_ps(bias);
  const auto sum = [=](__m512 v) { return avx512::activated<T>(activation, _mm512_add_ps(v, add)); };
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) avx512::store(sums + i, sum(avx512::load(sums + i)));
  if (i == n) return;
  const __mmask16 rest = avx512::first<float>(n - i);
  avx512::store(rest, sums + i, sum(avx512::load(rest, sums + i)));
}

template void activate_avx512(const Activation&, float, int64_t, float*, float);
template void activate_avx512(const Activation&, float, int64_t, float*, Float16);
template void activate_avx512(const Activation&, float, int64_t, float*, Bfloat16);

}  // namespace ortconv::kernels

#endif

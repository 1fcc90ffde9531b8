#include <immintrin.h>

#include <type_traits>

#include "kernels/epilogue/activated_avx2.h"
#include "kernels/epilogue/epilogue.h"
#include "kernels/vector_avx2.h"

namespace ortconv::kernels {

template <class T>
void activate_generic(const Activation& activation, float bias, int64_t n, float* sums, T);
template <class T>
void residual_generic(const Activation* activation, int64_t n, const T* residual, T* dst);

template <class T>
void activate_avx2(const Activation& activation, float bias, int64_t n, float* sums, T) {
  const __m256 add = _mm256_set1_ps(bias);
  const Activation applied = activation;
  const auto sum = [=](__m256 v) { return avx2::activated<T>(applied, _mm256_add_ps(v, add)); };
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) avx2::store(sums + i, sum(avx2::load(sums + i)));
  if (i < n) activate_generic(activation, bias, n - i, sums + i, T());
}

template void activate_avx2(const Activation&, float, int64_t, float*, float);
template void activate_avx2(const Activation&, float, int64_t, float*, Float16);
template void activate_avx2(const Activation&, float, int64_t, float*, Bfloat16);

template <class T>
void residual_avx2(const Activation* activation, int64_t n, const T* residual, T* dst) {
  constexpr int64_t kLanes = 32 / sizeof(Sum<T>);
  const Activation applied = activation == nullptr ? Activation() : *activation;
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    auto sum = avx2::add(avx2::load_widened(dst + i), avx2::load_widened(residual + i));
    if constexpr (!std::is_same_v<T, double>) {
      if (activation != nullptr) sum = avx2::activated<T>(applied, sum);
    }
    avx2::store(dst + i, sum);
  }
  residual_generic(activation, n - i, residual + i, dst + i);
}

#define INSTANTIATE(T) template void residual_avx2(const Activation*, int64_t, const T*, T*);
ORTCONV_FLOAT_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace ortconv::kernels

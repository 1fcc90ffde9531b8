#include <immintrin.h>

#include <type_traits>

#include "kernels/epilogue/activated_avx512.h"
#include "kernels/epilogue/epilogue.h"
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

template <class T>
void residual_avx512(const Activation* activation, int64_t n, const T* residual, T* dst) {
  constexpr int64_t kLanes = avx512::kLanes<T>;
  const Activation applied = activation == nullptr ? Activation() : *activation;
  const auto added = [=](auto v, auto more) {
    const auto sum = avx512::add(v, more);
    if constexpr (std::is_same_v<T, double>) {
      return sum;
    } else {
      return activation == nullptr ? sum : avx512::activated<T>(applied, sum);
    }
  };
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    avx512::store(dst + i, added(avx512::load_widened(dst + i), avx512::load_widened(residual + i)));
  }
  if (i == n) return;
  const auto rest = avx512::first<T>(n - i);
  avx512::store(rest, dst + i, added(avx512::load_widened(rest, dst + i), avx512::load_widened(rest, residual + i)));
}

#define INSTANTIATE(T) template void residual_avx512(const Activation*, int64_t, const T*, T*);
ORTCONV_FLOAT_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace ortconv::kernels

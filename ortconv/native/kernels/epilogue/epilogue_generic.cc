#include <type_traits>

#include "kernels/epilogue/epilogue.h"

namespace ortconv::kernels {

template <class T>
void activate_generic(const Activation& activation, float bias, int64_t n, float* sums, T) {
  const Activation a = activation;  // a copy, so that the compiler need not fear that `sums` changes it
  for (int64_t i = 0; i < n; ++i) {
    T element;
    round_to(&element, sums[i] + bias);
    sums[i] = a(widen(element));
  }
}

template void activate_generic(const Activation&, float, int64_t, float*, float);
template void activate_generic(const Activation&, float, int64_t, float*, Float16);
template void activate_generic(const Activation&, float, int64_t, float*, Bfloat16);

template <class T>
void residual_generic(const Activation* activation, int64_t n, const T* residual, T* dst) {
  for (int64_t i = 0; i < n; ++i) round_to(dst + i, widen(dst[i]) + widen(residual[i]));
  if constexpr (!std::is_same_v<T, double>) {
    if (activation == nullptr) return;
    const Activation a = *activation;  // a copy, so that the compiler need not fear that `dst` changes it
    for (int64_t i = 0; i < n; ++i) round_to(dst + i, a(widen(dst[i])));
  }
}

#define INSTANTIATE(T) template void residual_generic(const Activation*, int64_t, const T*, T*);
ORTCONV_FLOAT_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace ortconv::kernels

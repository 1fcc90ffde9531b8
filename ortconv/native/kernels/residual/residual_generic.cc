#include <type_traits>

#include "kernels/residual/residual.h"

namespace ortconv::kernels {

template <class T>
void residual_generic(const Activation* activation, int64_t n, const T* residual, T* dst) {
  for (int64_t i = 0; i < n; ++i) round_to(dst + i, widen(dst[i]) + widen(residual[i]));
  if constexpr (!std::is_same_v<T, double>) {
    if (activation == nullptr) return;
    const Activation a = *activation;  // a copy, so that the compiler need not fear that `dst` changes it
    for (int64_t i = 0; i < n; ++i) round_to(dst + i, a(widen(dst[i])));
  }
}

#define INSTANTIATE(T) template void residual_generic(const Activation*, int64_t, const T*, T*)
INSTANTIATE(float);
INSTANTIATE(double);
INSTANTIATE(Float16);
INSTANTIATE(Bfloat16);
#undef INSTANTIATE

}  // namespace ortconv::kernels

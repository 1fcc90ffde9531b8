#include "kernels/activate/activate.h"

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

}  // namespace ortconv::kernels

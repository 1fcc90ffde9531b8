#include "kernels/interleave/interleave.h"

namespace ortconv::kernels {

template <class T>
void interleave_generic(const Sum<T>* const* src, int64_t phases, int64_t n, Sum<T> bias, T* dst, Store) {
  for (int64_t p = 0; p < phases; ++p) {
    const Sum<T>* row = src[p];
    for (int64_t i = 0; i < n; ++i) round_to(dst + i * phases + p, row[i] + bias);
  }
}

template void interleave_generic(const float* const*, int64_t, int64_t, float, float*, Store);
template void interleave_generic(const double* const*, int64_t, int64_t, double, double*, Store);
template void interleave_generic(const float* const*, int64_t, int64_t, float, Float16*, Store);
template void interleave_generic(const float* const*, int64_t, int64_t, float, Bfloat16*, Store);

}  // namespace ortconv::kernels

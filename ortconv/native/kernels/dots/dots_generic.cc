#include <algorithm>

#include "kernels/dots/dots.h"

namespace ortconv::kernels {

template <class T>
void dots_generic(const DotsArgs<T>& args) {
  constexpr int64_t kLanes = 8;
  for (int64_t r = 0; r < args.rows; ++r) {
    const T* b = args.b + r * args.pitch;
    T sums[kLanes] = {};
    for (int64_t k = 0; k < args.count; k += kLanes) {
      if (k + kLanes <= args.count) {
        for (int64_t i = 0; i < kLanes; ++i) sums[i] += args.a[k + i] * b[k + i];
      } else {
        for (int64_t i = 0; k + i < args.count; ++i) sums[i] += args.a[k + i] * b[k + i];
      }
    }
    for (int64_t half = kLanes / 2; half > 0; half /= 2) {
      for (int64_t i = 0; i < half; ++i) sums[i] += sums[i + half];
    }
    args.out[r] = sums[0];
  }
}

#define INSTANTIATE(T) template void dots_generic(const DotsArgs<T>&);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

}  // namespace ortconv::kernels

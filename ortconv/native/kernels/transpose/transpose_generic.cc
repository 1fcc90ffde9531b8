#include <algorithm>

#include "kernels/transpose/transpose.h"

namespace ortconv::kernels {

template <class T>
void transpose_generic(const Sum<T>* src, int64_t src_stride, int64_t rows, int64_t cols, const Sum<T>* bias, T* dst,
                       int64_t dst_stride) {
  constexpr int64_t kTile = 16;  // a cache line by a cache line
  for (int64_t j0 = 0; j0 < cols; j0 += kTile) {
    const int64_t j1 = std::min(j0 + kTile, cols);
    for (int64_t i0 = 0; i0 < rows; i0 += kTile) {
      const int64_t i1 = std::min(i0 + kTile, rows);
      for (int64_t j = j0; j < j1; ++j) {
        T* out = dst + j * dst_stride;
        if (bias == nullptr) {
          for (int64_t i = i0; i < i1; ++i) round_to(out + i, src[i * src_stride + j]);
        } else {
          for (int64_t i = i0; i < i1; ++i) round_to(out + i, src[i * src_stride + j] + bias[i]);
        }
      }
    }
  }
}

#define INSTANTIATE(T) \
  template void transpose_generic(const Sum<T>*, int64_t, int64_t, int64_t, const Sum<T>*, T*, int64_t);
ORTCONV_FLOAT_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace ortconv::kernels

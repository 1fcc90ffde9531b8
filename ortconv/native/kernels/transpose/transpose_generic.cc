#include <algorithm>

#include "kernels/transpose/transpose.h"

namespace ortconv::kernels {

namespace {

// Calls fn(j, begin, end) for the numbers [begin, end) of column j: tile by tile, as these fit into the caches.
template <class Fn>
void for_each_run(int64_t rows, int64_t cols, const Fn& fn) {
  constexpr int64_t kTile = 16;  // a cache line by a cache line
  for (int64_t j0 = 0; j0 < cols; j0 += kTile) {
    const int64_t j1 = std::min(j0 + kTile, cols);
    for (int64_t i = 0; i < rows; i += kTile) {
      for (int64_t j = j0; j < j1; ++j) fn(j, i, std::min(i + kTile, rows));
    }
  }
}

}  // namespace

template <class T>
void transpose_generic(const Sum<T>* src, int64_t src_stride, int64_t rows, int64_t cols, const Sum<T>* bias, T* dst,
                       int64_t dst_stride) {
  for_each_run(rows, cols, [&](int64_t j, int64_t begin, int64_t end) {
    T* out = dst + j * dst_stride;
    if (bias == nullptr) {
      for (int64_t i = begin; i < end; ++i) round_to(out + i, src[i * src_stride + j]);
    } else {
      for (int64_t i = begin; i < end; ++i) round_to(out + i, src[i * src_stride + j] + bias[i]);
    }
  });
}

template <class T>
void transpose_from_generic(const T* src, int64_t src_stride, int64_t rows, int64_t cols, Sum<T>* dst,
                            int64_t dst_stride) {
  for_each_run(rows, cols, [&](int64_t j, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) dst[j * dst_stride + i] = widen(src[i * src_stride + j]);
  });
}

#define INSTANTIATE(T)                                                                                   \
  template void transpose_generic(const Sum<T>*, int64_t, int64_t, int64_t, const Sum<T>*, T*, int64_t); \
  template void transpose_from_generic(const T*, int64_t, int64_t, int64_t, Sum<T>*, int64_t);
ORTCONV_FLOAT_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace ortconv::kernels

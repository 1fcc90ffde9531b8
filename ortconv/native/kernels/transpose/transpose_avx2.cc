#include <immintrin.h>

#include "kernels/transpose/transpose.h"
#include "kernels/transpose/whole_tiles.h"
#include "kernels/transpose8_avx2.h"
#include "kernels/unroll.h"
#include "kernels/vector_avx2.h"

namespace ortconv::kernels {

namespace {

constexpr int64_t kLanes = 8;

template <class T>
void tile(const float* src, int64_t src_stride, const float* bias, T* dst, int64_t dst_stride) {
  __m256 columns[kLanes];
  avx2::transpose8([=](int i) { return src + i * src_stride; }, columns);
  const bool adds = bias != nullptr;
  const __m256 add = adds ? _mm256_loadu_ps(bias) : _mm256_setzero_ps();
  ORTCONV_UNROLL
  for (int i = 0; i < kLanes; ++i) {
    avx2::store(dst + i * dst_stride, adds ? _mm256_add_ps(columns[i], add) : columns[i]);
  }
}

}  // namespace

template <class T>
void transpose_avx2(const Sum<T>* src, int64_t src_stride, int64_t rows, int64_t cols, const Sum<T>* bias, T* dst,
                    int64_t dst_stride) {
  transpose_by_tiles<kLanes>(src, src_stride, rows, cols, bias, dst, dst_stride,
                             [](auto... tile_args) { tile(tile_args...); });
}

#define INSTANTIATE(T) \
  template void transpose_avx2(const Sum<T>*, int64_t, int64_t, int64_t, const Sum<T>*, T*, int64_t);
ORTCONV_FLOAT_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace ortconv::kernels

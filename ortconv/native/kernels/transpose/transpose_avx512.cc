#include <immintrin.h>

#include <algorithm>

#include "kernels/transpose/transpose.h"
#include "kernels/transpose16_avx512.h"
#include "kernels/unroll.h"
#include "kernels/vector_avx512.h"

namespace ortconv::kernels {

template <class T>
void transpose_generic(const Sum<T>* src, int64_t src_stride, int64_t rows, int64_t cols, const Sum<T>* bias, T* dst,
                       int64_t dst_stride);
template <class T>
void transpose_from_generic(const T* src, int64_t src_stride, int64_t rows, int64_t cols, Sum<T>* dst,
                            int64_t dst_stride);

namespace {

constexpr int64_t kLanes = 16;

// Up to 16 rows by 16 columns.
template <class In, class Out>
void tile(const In* src, int64_t src_stride, int64_t rows, int64_t cols, const float* bias, Out* dst,
          int64_t dst_stride) {
  const __mmask16 row_mask = avx512::first<Out>(rows), col_mask = avx512::first<In>(cols);
  __m512 v[kLanes];
  ORTCONV_UNROLL
  for (int i = 0; i < kLanes; ++i) {
    v[i] = i < rows ? avx512::load_widened(col_mask, src + i * src_stride) : _mm512_setzero_ps();
  }
  avx512::transpose16(v);
  if (bias != nullptr) {
    const __m512 add = avx512::load(row_mask, bias);
    ORTCONV_UNROLL
    for (int j = 0; j < kLanes; ++j) v[j] = avx512::add(v[j], add);
  }
  ORTCONV_UNROLL
  for (int j = 0; j < kLanes; ++j) {
    if (j < cols) avx512::store(row_mask, dst + j * dst_stride, v[j]);
  }
}

template <class In, class Out>
void by_tiles(const In* src, int64_t src_stride, int64_t rows, int64_t cols, const float* bias, Out* dst,
              int64_t dst_stride) {
  for (int64_t j = 0; j < cols; j += kLanes) {
    for (int64_t i = 0; i < rows; i += kLanes) {
      tile(src + i * src_stride + j, src_stride, std::min(kLanes, rows - i), std::min(kLanes, cols - j),
           bias == nullptr ? nullptr : bias + i, dst + j * dst_stride + i, dst_stride);
    }
  }
}

}  // namespace

template <class T>
void transpose_avx512(const Sum<T>* src, int64_t src_stride, int64_t rows, int64_t cols, const Sum<T>* bias, T* dst,
                      int64_t dst_stride) {
  if constexpr (std::is_same_v<T, double>) {
    transpose_generic(src, src_stride, rows, cols, bias, dst, dst_stride);
  } else {
    by_tiles(src, src_stride, rows, cols, bias, dst, dst_stride);
  }
}

template <class T>
void transpose_from_avx512(const T* src, int64_t src_stride, int64_t rows, int64_t cols, Sum<T>* dst,
                           int64_t dst_stride) {
  if constexpr (std::is_same_v<T, double>) {
    transpose_from_generic(src, src_stride, rows, cols, dst, dst_stride);
  } else {
    by_tiles(src, src_stride, rows, cols, nullptr, dst, dst_stride);
  }
}

#define INSTANTIATE(T)                                                                                  \
  template void transpose_avx512(const Sum<T>*, int64_t, int64_t, int64_t, const Sum<T>*, T*, int64_t); \
  template void transpose_from_avx512(const T*, int64_t, int64_t, int64_t, Sum<T>*, int64_t);
ORTCONV_FLOAT_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace ortconv::kernels

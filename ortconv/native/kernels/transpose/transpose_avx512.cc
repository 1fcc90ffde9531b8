#if defined(__AVX512F__)

#include <immintrin.h>

#include <algorithm>

#include "kernels/transpose/transpose.h"
#include "kernels/unroll.h"
#include "kernels/vector_avx512.h"

namespace ortconv::kernels {

template <class T>
void transpose_generic(const Sum<T>* src, int64_t src_stride, int64_t rows, int64_t cols, const Sum<T>* bias, T* dst,
                       int64_t dst_stride);

namespace {

constexpr int64_t kLanes = 16;

// Up to 16 rows by 16 columns.
template <class T>
void tile(const float* src, int64_t src_stride, int64_t rows, int64_t cols, const float* bias, T* dst,
          int64_t dst_stride) {
  const __mmask16 row_mask = avx512::first<T>(rows), col_mask = avx512::first<T>(cols);
  __m512 a[kLanes], b[kLanes];
  ORTCONV_UNROLL
  for (int i = 0; i < kLanes; ++i) {
    a[i] = i < rows ? _mm512_maskz_loadu_ps(col_mask, src + i * src_stride) : _mm512_setzero_ps();
  }
  // 2x2 within pairs of rows, 4x4 within quarters, then the quarters themselves.
  ORTCONV_UNROLL
  for (int i = 0; i < kLanes; i += 2) {
    b[i] = _mm512_unpacklo_ps(a[i], a[i + 1]);
    b[i + 1] = _mm512_unpackhi_ps(a[i], a[i + 1]);
  }
  ORTCONV_UNROLL
  for (int i = 0; i < kLanes; i += 4) {
    a[i] = _mm512_shuffle_ps(b[i], b[i + 2], 0x44);
    a[i + 1] = _mm512_shuffle_ps(b[i], b[i + 2], 0xee);
    a[i + 2] = _mm512_shuffle_ps(b[i + 1], b[i + 3], 0x44);
    a[i + 3] = _mm512_shuffle_ps(b[i + 1], b[i + 3], 0xee);
  }
  // a[4 q + j] holds, in quarter h, column 4 h + j of the rows 4 q ... 4 q + 3.
  ORTCONV_UNROLL
  for (int j = 0; j < 4; ++j) {
    const __m512 low01 = _mm512_shuffle_f32x4(a[j], a[4 + j], 0x44);
    const __m512 high01 = _mm512_shuffle_f32x4(a[j], a[4 + j], 0xee);
    const __m512 low23 = _mm512_shuffle_f32x4(a[8 + j], a[12 + j], 0x44);
    const __m512 high23 = _mm512_shuffle_f32x4(a[8 + j], a[12 + j], 0xee);
    b[j] = _mm512_shuffle_f32x4(low01, low23, 0x88);
    b[4 + j] = _mm512_shuffle_f32x4(low01, low23, 0xdd);
    b[8 + j] = _mm512_shuffle_f32x4(high01, high23, 0x88);
    b[12 + j] = _mm512_shuffle_f32x4(high01, high23, 0xdd);
  }
  if (bias != nullptr) {
    const __m512 add = avx512::load(row_mask, bias);
    ORTCONV_UNROLL
    for (int j = 0; j < kLanes; ++j) b[j] = avx512::add(b[j], add);
  }
  ORTCONV_UNROLL
  for (int j = 0; j < kLanes; ++j) {
    if (j < cols) avx512::store(row_mask, dst + j * dst_stride, b[j]);
  }
}

}  // namespace

template <class T>
void transpose_avx512(const Sum<T>* src, int64_t src_stride, int64_t rows, int64_t cols, const Sum<T>* bias, T* dst,
                      int64_t dst_stride) {
  if constexpr (std::is_same_v<T, double>) {
    transpose_generic(src, src_stride, rows, cols, bias, dst, dst_stride);
  } else {
    for (int64_t j = 0; j < cols; j += kLanes) {
      for (int64_t i = 0; i < rows; i += kLanes) {
        tile(src + i * src_stride + j, src_stride, std::min(kLanes, rows - i), std::min(kLanes, cols - j),
             bias == nullptr ? nullptr : bias + i, dst + j * dst_stride + i, dst_stride);
      }
    }
  }
}

#define INSTANTIATE(T) \
  template void transpose_avx512(const Sum<T>*, int64_t, int64_t, int64_t, const Sum<T>*, T*, int64_t)
INSTANTIATE(float);
INSTANTIATE(double);
INSTANTIATE(Float16);
INSTANTIATE(Bfloat16);
#undef INSTANTIATE

}  // namespace ortconv::kernels

#endif

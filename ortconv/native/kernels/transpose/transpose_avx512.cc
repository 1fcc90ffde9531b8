#if defined(__AVX512F__)

#include <immintrin.h>

#include <algorithm>

#include "kernels/transpose/transpose.h"
#include "kernels/unroll.h"

namespace ortconv::kernels {
namespace {

constexpr int64_t kLanes = 16;

__mmask16 first(int64_t n) { return static_cast<__mmask16>((1u << n) - 1); }

// Up to 16 rows by 16 columns.
void tile(const float* src, int64_t src_stride, int64_t rows, int64_t cols, const float* bias, float* dst,
          int64_t dst_stride) {
  const __mmask16 row_mask = first(rows), col_mask = first(cols);
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
  const __m512 add = bias == nullptr ? _mm512_setzero_ps() : _mm512_maskz_loadu_ps(row_mask, bias);
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
  ORTCONV_UNROLL
  for (int j = 0; j < kLanes; ++j) {
    if (j < cols) _mm512_mask_storeu_ps(dst + j * dst_stride, row_mask, _mm512_add_ps(b[j], add));
  }
}

}  // namespace

void transpose_f32_avx512(const float* src, int64_t src_stride, int64_t rows, int64_t cols, const float* bias,
                          float* dst, int64_t dst_stride) {
  for (int64_t j = 0; j < cols; j += kLanes) {
    for (int64_t i = 0; i < rows; i += kLanes) {
      tile(src + i * src_stride + j, src_stride, std::min(kLanes, rows - i), std::min(kLanes, cols - j),
           bias == nullptr ? nullptr : bias + i, dst + j * dst_stride + i, dst_stride);
    }
  }
}

}  // namespace ortconv::kernels

#endif

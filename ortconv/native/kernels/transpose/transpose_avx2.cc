#if defined(__AVX2__)

#include <immintrin.h>

#include <algorithm>

#include "kernels/transpose/transpose.h"
#include "kernels/unroll.h"

namespace ortconv::kernels {

void transpose_f32_generic(const float* src, int64_t src_stride, int64_t rows, int64_t cols, const float* bias,
                           float* dst, int64_t dst_stride);

namespace {

constexpr int64_t kLanes = 8;

void tile(const float* src, int64_t src_stride, const float* bias, float* dst, int64_t dst_stride) {
  // Rows i and i + 4 share a vector, so that only shuffles within halves remain.
  __m256 low[4], high[4];
  ORTCONV_UNROLL
  for (int i = 0; i < 4; ++i) {
    const float* a = src + i * src_stride;
    const float* b = src + (i + 4) * src_stride;
    low[i] = _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(a)), _mm_loadu_ps(b), 1);
    high[i] = _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(a + 4)), _mm_loadu_ps(b + 4), 1);
  }
  const __m256 add = bias == nullptr ? _mm256_setzero_ps() : _mm256_loadu_ps(bias);
  ORTCONV_UNROLL
  for (int half = 0; half < 2; ++half, dst += 4 * dst_stride) {
    const __m256* row = half == 0 ? low : high;
    const __m256 t0 = _mm256_unpacklo_ps(row[0], row[1]), t1 = _mm256_unpackhi_ps(row[0], row[1]);
    const __m256 t2 = _mm256_unpacklo_ps(row[2], row[3]), t3 = _mm256_unpackhi_ps(row[2], row[3]);
    _mm256_storeu_ps(dst, _mm256_add_ps(_mm256_shuffle_ps(t0, t2, 0x44), add));
    _mm256_storeu_ps(dst + dst_stride, _mm256_add_ps(_mm256_shuffle_ps(t0, t2, 0xee), add));
    _mm256_storeu_ps(dst + 2 * dst_stride, _mm256_add_ps(_mm256_shuffle_ps(t1, t3, 0x44), add));
    _mm256_storeu_ps(dst + 3 * dst_stride, _mm256_add_ps(_mm256_shuffle_ps(t1, t3, 0xee), add));
  }
}

}  // namespace

void transpose_f32_avx2(const float* src, int64_t src_stride, int64_t rows, int64_t cols, const float* bias, float* dst,
                        int64_t dst_stride) {
  const int64_t whole_cols = cols / kLanes * kLanes;
  for (int64_t i = 0; i < rows; i += kLanes) {
    const int64_t count = std::min(kLanes, rows - i);
    const float* in = src + i * src_stride;
    const float* add = bias == nullptr ? nullptr : bias + i;
    int64_t j = 0;
    for (; count == kLanes && j < whole_cols; j += kLanes) {
      tile(in + j, src_stride, add, dst + j * dst_stride + i, dst_stride);
    }
    transpose_f32_generic(in + j, src_stride, count, cols - j, add, dst + j * dst_stride + i, dst_stride);
  }
}

}  // namespace ortconv::kernels

#endif

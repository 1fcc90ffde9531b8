#include <immintrin.h>

#include "kernels/transpose/transpose.h"
#include "kernels/transpose/whole_tiles.h"
#include "kernels/unroll.h"
#include "kernels/vector_avx2.h"

namespace ortconv::kernels {

namespace {

constexpr int64_t kLanes = 8;

template <class T>
void tile(const float* src, int64_t src_stride, const float* bias, T* dst, int64_t dst_stride) {
  // Rows i and i + 4 share a vector, so that only shuffles within halves remain.
  __m256 low[4], high[4];
  ORTCONV_UNROLL
  for (int i = 0; i < 4; ++i) {
    const float* a = src + i * src_stride;
    const float* b = src + (i + 4) * src_stride;
    low[i] = _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(a)), _mm_loadu_ps(b), 1);
    high[i] = _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(a + 4)), _mm_loadu_ps(b + 4), 1);
  }
  const bool adds = bias != nullptr;
  const __m256 add = adds ? _mm256_loadu_ps(bias) : _mm256_setzero_ps();
  const auto put = [=](T* out, __m256 v) { avx2::store(out, adds ? _mm256_add_ps(v, add) : v); };
  ORTCONV_UNROLL
  for (int half = 0; half < 2; ++half, dst += 4 * dst_stride) {
    const __m256* row = half == 0 ? low : high;
    const __m256 t0 = _mm256_unpacklo_ps(row[0], row[1]), t1 = _mm256_unpackhi_ps(row[0], row[1]);
    const __m256 t2 = _mm256_unpacklo_ps(row[2], row[3]), t3 = _mm256_unpackhi_ps(row[2], row[3]);
    put(dst, _mm256_shuffle_ps(t0, t2, 0x44));
    put(dst + dst_stride, _mm256_shuffle_ps(t0, t2, 0xee));
    put(dst + 2 * dst_stride, _mm256_shuffle_ps(t1, t3, 0x44));
    put(dst + 3 * dst_stride, _mm256_shuffle_ps(t1, t3, 0xee));
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

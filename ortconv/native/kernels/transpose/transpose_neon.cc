#if defined(__aarch64__)

#include <arm_neon.h>

#include "kernels/transpose/transpose.h"
#include "kernels/transpose/whole_tiles.h"
#include "kernels/vector_neon.h"

namespace ortconv::kernels {

template <class T>
void transpose_from_generic(const T* src, int64_t src_stride, int64_t rows, int64_t cols, Sum<T>* dst,
                            int64_t dst_stride);

namespace {

constexpr int64_t kLanes = 4;

template <class T>
void tile(const float* src, int64_t src_stride, const float* bias, T* dst, int64_t dst_stride) {
  const float32x4_t r0 = vld1q_f32(src), r1 = vld1q_f32(src + src_stride);
  const float32x4_t r2 = vld1q_f32(src + 2 * src_stride), r3 = vld1q_f32(src + 3 * src_stride);
  const bool adds = bias != nullptr;
  const float32x4_t add = adds ? vld1q_f32(bias) : vdupq_n_f32(0);
  const auto put = [=](T* out, float64x2_t pairs) {
    const float32x4_t v = vreinterpretq_f32_f64(pairs);
    neon::store(out, adds ? vaddq_f32(v, add) : v);
  };
  const float64x2_t even01 = vreinterpretq_f64_f32(vtrn1q_f32(r0, r1)),
                    odd01 = vreinterpretq_f64_f32(vtrn2q_f32(r0, r1));
  const float64x2_t even23 = vreinterpretq_f64_f32(vtrn1q_f32(r2, r3)),
                    odd23 = vreinterpretq_f64_f32(vtrn2q_f32(r2, r3));
  put(dst, vtrn1q_f64(even01, even23));
  put(dst + dst_stride, vtrn1q_f64(odd01, odd23));
  put(dst + 2 * dst_stride, vtrn2q_f64(even01, even23));
  put(dst + 3 * dst_stride, vtrn2q_f64(odd01, odd23));
}

}  // namespace

template <class T>
void transpose_neon(const Sum<T>* src, int64_t src_stride, int64_t rows, int64_t cols, const Sum<T>* bias, T* dst,
                    int64_t dst_stride) {
  transpose_by_tiles<kLanes>(src, src_stride, rows, cols, bias, dst, dst_stride,
                             [](auto... tile_args) { tile(tile_args...); });
}

template <class T>
void transpose_from_neon(const T* src, int64_t src_stride, int64_t rows, int64_t cols, Sum<T>* dst,
                         int64_t dst_stride) {
  if constexpr (std::is_same_v<T, Sum<T>>) {
    transpose_neon<T>(src, src_stride, rows, cols, nullptr, dst, dst_stride);
  } else {
    transpose_from_generic(src, src_stride, rows, cols, dst, dst_stride);
  }
}

#define INSTANTIATE(T)                                                                                \
  template void transpose_neon(const Sum<T>*, int64_t, int64_t, int64_t, const Sum<T>*, T*, int64_t); \
  template void transpose_from_neon(const T*, int64_t, int64_t, int64_t, Sum<T>*, int64_t);
ORTCONV_FLOAT_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace ortconv::kernels

#endif

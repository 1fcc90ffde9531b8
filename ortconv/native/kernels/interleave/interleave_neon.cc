#if defined(__aarch64__)

#include <arm_neon.h>

#include "kernels/interleave/interleave.h"
#include "kernels/vector_neon.h"

namespace ortconv::kernels {

template <class T>
void interleave_generic(const Sum<T>* const* src, int64_t phases, int64_t n, Sum<T> bias, T* dst, Store store);

namespace {

constexpr int64_t kLanes = 4;

// One or two phases. Returns how many elements of each it wrote.
template <class T>
int64_t interleave(const float* const* src, int64_t phases, int64_t n, float bias, T* dst) {
  const float32x4_t bias4 = vdupq_n_f32(bias);
  int64_t i = 0;
  if (phases == 1) {
    for (; i + kLanes <= n; i += kLanes) neon::store(dst + i, vaddq_f32(vld1q_f32(src[0] + i), bias4));
    return i;
  }
  for (; i + kLanes <= n; i += kLanes) {
    const float32x4_t even = vaddq_f32(vld1q_f32(src[0] + i), bias4);
    const float32x4_t odd = vaddq_f32(vld1q_f32(src[1] + i), bias4);
    neon::store(dst + 2 * i, vzip1q_f32(even, odd));
    neon::store(dst + 2 * i + kLanes, vzip2q_f32(even, odd));
  }
  return i;
}

}  // namespace

template <class T>
void interleave_neon(const Sum<T>* const* src, int64_t phases, int64_t n, Sum<T> bias, T* dst, Store store) {
  if constexpr (!std::is_same_v<T, double>) {
    if (phases <= 2) {
      const int64_t done = interleave(src, phases, n, bias, dst);
      const float* rest[2] = {src[0] + done, src[phases - 1] + done};
      return interleave_generic(rest, phases, n - done, bias, dst + done * phases, store);
    }
  }
  interleave_generic(src, phases, n, bias, dst, store);
}

template void interleave_neon(const float* const*, int64_t, int64_t, float, float*, Store);
template void interleave_neon(const double* const*, int64_t, int64_t, double, double*, Store);
template void interleave_neon(const float* const*, int64_t, int64_t, float, Float16*, Store);
template void interleave_neon(const float* const*, int64_t, int64_t, float, Bfloat16*, Store);

}  // namespace ortconv::kernels

#endif

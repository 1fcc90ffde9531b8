#if defined(__aarch64__)

#include <arm_neon.h>

#include "kernels/interleave/interleave.h"
#include "kernels/vector_neon.h"

namespace ortconv::kernels {

template <class T>
void interleave_generic(const InterleaveArgs<T>& args);

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
void interleave_neon(const InterleaveArgs<T>& args) {
  if constexpr (!std::is_same_v<T, double>) {
    if (args.phases <= 2) {
      int64_t done = 0;
      for (int64_t c = 0; c < args.channels; ++c) {
        const float* src[2] = {args.src[0] + c * args.src_stride, args.src[args.phases - 1] + c * args.src_stride};
        done = interleave(src, args.phases, args.n, args.bias_of(c), args.dst + c * args.dst_stride);
      }
      if (done == args.n) return;
      InterleaveArgs<T> rest = args;
      const float* src[2] = {args.src[0] + done, args.src[args.phases - 1] + done};
      rest.src = src;
      rest.n -= done;
      rest.dst += done * args.phases;
      return interleave_generic(rest);
    }
  }
  interleave_generic(args);
}

#define INSTANTIATE(T) template void interleave_neon(const InterleaveArgs<T>&);
ORTCONV_FLOAT_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace ortconv::kernels

#endif

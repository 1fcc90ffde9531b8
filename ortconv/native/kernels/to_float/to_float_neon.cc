#if defined(__aarch64__)

#include <arm_neon.h>

#include <cstring>

#include "kernels/to_float/to_float.h"

namespace ortconv::kernels {
namespace {

constexpr int64_t kLanes = 4;

float32x4_t widened(Float16, uint16x4_t bits) { return vcvt_f32_f16(vreinterpret_f16_u16(bits)); }
float32x4_t widened(Bfloat16, uint16x4_t bits) { return vreinterpretq_f32_u32(vshll_n_u16(bits, 16)); }

template <class T>
void widen(const T* src, int64_t n, float* dst) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    vst1q_f32(dst + i, widened(T(), vld1_u16(reinterpret_cast<const uint16_t*>(src + i))));
  }
  if (i == n) return;
  uint16_t bits[kLanes] = {};
  float last[kLanes];
  std::memcpy(bits, src + i, (n - i) * sizeof(T));
  vst1q_f32(last, widened(T(), vld1_u16(bits)));
  std::memcpy(dst + i, last, (n - i) * sizeof(float));
}

}  // namespace

void to_float_neon(const Float16* src, int64_t n, float* dst) { widen(src, n, dst); }
void to_float_neon(const Bfloat16* src, int64_t n, float* dst) { widen(src, n, dst); }

}  // namespace ortconv::kernels

#endif

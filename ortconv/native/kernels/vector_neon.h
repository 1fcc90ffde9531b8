// Rounding of float sums into memory in NEON. Only for files named after it.
#pragma once

#include <arm_neon.h>

#include "kernels/element.h"

namespace ortconv::kernels::neon {

inline void store(float* out, float32x4_t v) { vst1q_f32(out, v); }

// To nearest even; NaN stays NaN.
inline void store(Float16* out, float32x4_t v) {
  vst1_u16(reinterpret_cast<uint16_t*>(out), vreinterpret_u16_f16(vcvt_f16_f32(v)));
}

inline void store(Bfloat16* out, float32x4_t v) {
  const uint32x4_t bits = vreinterpretq_u32_f32(v);
  const uint32x4_t odd = vandq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(1));
  const uint32x4_t nearest = vaddq_u32(vaddq_u32(bits, vdupq_n_u32(0x7fff)), odd);
  const uint32x4_t quiet = vorrq_u32(bits, vdupq_n_u32(0x00400000));
  const uint32x4_t is_number = vceqq_f32(v, v);
  vst1_u16(reinterpret_cast<uint16_t*>(out), vshrn_n_u32(vbslq_u32(is_number, nearest, quiet), 16));
}

}  // namespace ortconv::kernels::neon

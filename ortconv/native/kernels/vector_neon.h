// Vectors of float sums in NEON: how they are computed with and rounded into memory. Only for files named after it.
#pragma once

#include <arm_neon.h>

#include <algorithm>
#include <cstdint>

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

// The same for loops that are written once for all instruction sets.
struct Floats {
  using Cell = float;
  using Vector = float32x4_t;
  static constexpr int64_t kLanes = 4;

  static Vector zero() { return vdupq_n_f32(0); }
  static Vector broadcast(float value) { return vdupq_n_f32(value); }
  static Vector load(const float* from) { return vld1q_f32(from); }
  template <class Out>
  static void store(Out* to, Vector v) {
    neon::store(to, v);
  }
  template <class Out>
  static void store_first(int64_t n, Out* to, Vector v) {
    Out lanes[kLanes];
    neon::store(lanes, v);
    std::copy_n(lanes, n, to);
  }
  static Vector add(Vector a, Vector b) { return vaddq_f32(a, b); }
  static Vector multiply_add(Vector a, Vector b, Vector c) { return vfmaq_f32(c, a, b); }
};

}  // namespace ortconv::kernels::neon

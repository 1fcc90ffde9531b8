#if defined(__aarch64__)

#include <arm_neon.h>

#include "kernels/integer_conv/loops.h"
#include "kernels/integer_conv/rest.h"

namespace ortconv::kernels {
namespace {

struct Neon {
  static constexpr int kLanes = 4, kDepth = 2, kRows = 8, kVectors = 2;
  static constexpr bool kSaturates = false, kStoresResults = false;
  using Number = int16_t;
  using Int = int32x4_t;

  static Int zero() { return vdupq_n_s32(0); }
  static Int load(const uint32_t* p) { return vreinterpretq_s32_u32(vld1q_u32(p)); }
  static Int broadcast(uint32_t value) { return vreinterpretq_s32_u32(vdupq_n_u32(value)); }
  static void prefetch(const uint32_t* p) { __builtin_prefetch(p); }
  static void keep(Int&) {}

  static Int dot(Int sum, Int x, Int w) {
    const int16x8_t numbers = vreinterpretq_s16_s32(x), weights = vreinterpretq_s16_s32(w);
    const int32x4_t low = vmull_s16(vget_low_s16(numbers), vget_low_s16(weights));
    return vaddq_s32(sum, vpaddq_s32(low, vmull_high_s16(numbers, weights)));
  }

  // The upper half of a lane has the sign, or a neighbour, and meets a weight of 0.
  template <int kStep>
  static Int spread(const int16_t* p) {
    if constexpr (kStep == 2) return vreinterpretq_s32_s16(vld1q_s16(p));
    return vmovl_s16(vld1_s16(p));
  }

  static void finish(Int sum, const IntegerChannel& channel, const PositionVector& position, float* y) {
    const float32x4_t number = vcvtq_f32_s32(vaddq_s32(sum, vdupq_n_s32(channel.correction)));
    const float32x4_t result = vfmaq_f32(vdupq_n_f32(channel.bias), number, vdupq_n_f32(channel.scale));
    float* out = y + position.dst;
    if (position.count == kLanes) {
      vst1q_f32(out, result);
      return;
    }
    float all[kLanes];
    vst1q_f32(all, result);
    for (int i = 0; i < kLanes; ++i) {
      if ((position.lanes >> i & 1) != 0) *out++ = all[i];
    }
  }

  static void interleave(const IntegerCopyArgs& args) {
    for (int64_t i = 0; i < args.count; ++i) interleave_pairs(args, args.copies[i]);
  }

  static void widen(const IntegerCopyArgs& args) {
    for (int64_t i = 0; i < args.count; ++i) widen_numbers(args, args.copies[i]);
  }
};

}  // namespace

extern const IntegerConvKernel k_integer_conv_neon;
const IntegerConvKernel k_integer_conv_neon = integer_conv_kernel<Neon>("integer_conv_neon");

}  // namespace ortconv::kernels

#endif

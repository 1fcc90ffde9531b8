#if defined(__aarch64__)

#include <arm_neon.h>

#include "kernels/depthwise/depthwise_loops.h"
#include "kernels/vector_neon.h"

namespace ortconv::kernels {

template <class T>
void depthwise_generic(const DepthwiseArgs<T>& args);  // which has 4 lanes of doubles
template <class Cell>
void channel_lanes_generic(const ChannelLanesArgs<Cell>& args);

namespace {

struct Floats : neon::Floats {
  static constexpr int kRegisters = 32;
  using Normal = void;  // no faster store of bf16, see depthwise_box.h

  using Index = uint8x16_t;
  static Index load_index(const int32_t* index) {
    // Element i has bytes 4 * i to 4 * i + 3. Index -1 gives byte indices beyond the table, which select zeros.
    const uint32x4_t lanes = vreinterpretq_u32_s32(vld1q_s32(index));
    return vreinterpretq_u8_u32(vmlaq_n_u32(vdupq_n_u32(0x03020100), lanes, 0x04040404));
  }
  static Vector pick(const float* from, Index bytes) {
    return vreinterpretq_f32_u8(vqtbl1q_u8(vreinterpretq_u8_f32(vld1q_f32(from)), bytes));
  }
  static Vector pick(const float* from, const int32_t* index) { return pick(from, load_index(index)); }
  template <class T>
  static void stream(T* to, Vector v) {  // an ordinary store: NEON has no non-temporal one
    store(to, v);
  }
};

}  // namespace

extern const DepthwiseKernel kDepthwise_neon;
const DepthwiseKernel kDepthwise_neon = {
    "depthwise_neon",
    Floats::kLanes,
    4,
    true,
    {depthwise<Floats, float>, depthwise_generic<double>, depthwise<Floats, Float16>, depthwise<Floats, Bfloat16>},
    {channel_lanes<Floats>, channel_lanes_generic<double>}};

}  // namespace ortconv::kernels

#endif

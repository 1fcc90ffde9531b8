// How the weights are packed tap by tap.
#include <algorithm>
#include <type_traits>

#include "base/math.h"
#include "kernels/conv/tapwise.h"
#include "kernels/conv/tapwise_layout.h"

namespace ortconv::kernels {
namespace {

using tapwise::Blocks;

constexpr int64_t kChunk = 256;  // most src channels of a chunk

// That of channel c and the one after it, if there is any.
template <class Operand, class T>
Operand operand(const Plan& plan, const T* wei, int64_t c) {
  if constexpr (std::is_same_v<Operand, BfloatPair>) {
    return {wei[c * plan.wei_0], c + 1 < plan.ic ? wei[(c + 1) * plan.wei_0] : Bfloat16()};
  } else {
    return widen(wei[c * plan.wei_0]);
  }
}

}  // namespace

int64_t tapwise_chunk(const Plan& plan) {
  const int64_t chunks = ceil_div(plan.ic, kChunk);
  return ceil_div(ceil_div(plan.ic, chunks), 16) * 16;
}

int64_t tapwise_packed_size(const Plan& plan) {
  return plan.g * Blocks(plan).columns() * tapwise::depth_of(plan, plan.ic) * plan.num_taps;
}

void pack_tapwise(const Plan& plan, const void* wei, int64_t group, void* packed) {
  const Blocks blocks(plan);
  tapwise::with_types(plan, [&](auto element, auto zero) {
    using T = decltype(element);
    using Operand = decltype(zero);
    const T* in = static_cast<const T*>(wei) + group * plan.ic * plan.wei_0;
    auto* out = static_cast<Operand*>(packed) + group * (tapwise_packed_size(plan) / plan.g);
    for (int64_t block = 0; block < blocks.count; ++block) {
      for (int64_t c0 = 0; c0 < plan.ic; c0 += plan.k_chunk) {
        for (int64_t tap = 0; tap < plan.num_taps; ++tap) {
          int64_t offset = 0;
          for (int64_t a = plan.ndims - 1, rest = tap; a >= 0; --a) {
            offset += rest % plan.axis[a].ker * plan.wei_x[a];
            rest /= plan.axis[a].ker;
          }
          for (int64_t c = c0; c < std::min(c0 + plan.k_chunk, plan.ic); c += kChannels<Operand>) {
            for (int64_t oc = blocks.begin(block); oc < blocks.begin(block + 1); ++oc) {
              *out++ = oc < plan.oc ? operand<Operand>(plan, in + oc * plan.wei_1 + offset, c) : Operand();
            }
          }
        }
      }
    }
  });
}

}  // namespace ortconv::kernels

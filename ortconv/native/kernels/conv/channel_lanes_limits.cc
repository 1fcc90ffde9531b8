// Which runs may be computed with channels as lanes.
#include "kernels/conv/channel_lanes.h"
#include "kernels/conv/channel_lanes_layout.h"

namespace ortconv::kernels {
namespace {

constexpr int64_t kMostCopyBytes = 512 << 10;  // of kernels that reach far
constexpr int64_t kMostWeights = 1 << 15;      // of the channels of a block
constexpr int64_t kMostClassSteps = 1 << 12;

}  // namespace

bool can_run_channel_lanes(const Plan& plan, const ConvProblem& p) {
  const int last = plan.ndims - 1;
  if (plan.ic != 1 || plan.oc != 1) return false;
  if (p.mb == 0 || p.src_x[last] != 1 || p.dst_x[last] != 1) return false;
  if (plan.op == Op::kConv && p.stride[last] != 1) return false;
  for (int a = 0; a <= last; ++a) {
    if (p.dst_size[a] == 0 || p.src_size[a] == 0) return false;
  }
  const int64_t classes = plan.axis[last].dst_step, ker = p.ker[last];
  const int64_t lanes = plan.cell_bytes == sizeof(double) ? plan.depthwise->lanes_f64 : plan.depthwise->lanes_f32;
  if (plan.num_taps * lanes > kMostWeights || classes * ker > kMostClassSteps) return false;
  return channel_lanes::Layout(plan, p, 1).copy_bytes <= kMostCopyBytes;
}

}  // namespace ortconv::kernels

// Whether a run is computed with channels as lanes.
#include "kernels/conv_transpose/channel_lanes.h"
#include "kernels/conv_transpose/channel_lanes_layout.h"

namespace ortconv::kernels {
namespace {

constexpr int64_t kMostCopyBytes = 512 << 10;  // of kernels that reach far
constexpr int64_t kMostWeights = 1 << 15;      // of the channels of a block
constexpr int64_t kMostClassSteps = 1 << 12;

}  // namespace

bool prefers_channel_lanes(const Plan& plan, const ConvProblem& p) {
  const int last = plan.ndims - 1;
  if (plan.channel_lanes == Use::kNever || plan.ic != 1 || plan.oc != 1) return false;
  if (p.mb == 0 || p.src_x[last] != 1 || p.dst_x[last] != 1) return false;
  if (plan.op == Op::kConv && p.stride[last] != 1) return false;
  for (int a = 0; a <= last; ++a) {
    if (p.dst_size[a] == 0 || p.src_size[a] == 0) return false;
  }
  const channel_lanes::Layout layout(plan, p, 1);
  const int64_t classes = layout.axis[last].classes, ker = p.ker[last];
  if (layout.taps * layout.lanes > kMostWeights || classes * ker > kMostClassSteps) return false;
  if (layout.copy_bytes > kMostCopyBytes) return false;
  if (plan.channel_lanes == Use::kAlways) return true;
  if (!plan.depthwise->picks_fast) return false;
  // How many times as fast it is, about: it gains by the rows of vectors that are mostly empty, and loses by lanes that
  // have no channel. Rows of complete boxes of taps are the fastest. Fewer lanes take longer to transpose.
  constexpr double kLongRow = 0.85, kLongRowOfBoxes = 0.3, kShortRow = 2, kFewLanes = 0.7, kLeastGain = 1.05;
  constexpr int64_t kManyLanes = 16;
  const double row = static_cast<double>(p.dst_size[last]), used = static_cast<double>(p.g);
  const double lanes = static_cast<double>(layout.lanes), all = static_cast<double>(layout.channel_blocks) * lanes;
  const double gain = (classes > 1 && ker % classes == 0 ? kLongRowOfBoxes : kLongRow) + kShortRow * lanes / row;
  return gain * used / all * (layout.lanes < kManyLanes ? kFewLanes : 1) > kLeastGain;
}

}  // namespace ortconv::kernels

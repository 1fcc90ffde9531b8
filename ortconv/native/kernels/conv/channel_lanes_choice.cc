// Decides whether a run is computed with channels as lanes.
#include "base/math.h"
#include "kernels/conv/channel_lanes.h"
#include "kernels/conv/channel_lanes_layout.h"

namespace ortconv::kernels {
namespace {

constexpr int64_t kMostCopyBytes = 512 << 10;  // of kernels that reach far
constexpr int64_t kMostWeights = 1 << 15;      // of the channels of a block
constexpr int64_t kMostClassSteps = 1 << 12;

// Gains where vectors of a row would be mostly empty, loses where lanes have no channel. The alternative is fastest for
// complete boxes of taps (depthwise_box.h). Few lanes take longer to transpose.
bool is_faster(const Plan& plan, const ConvProblem& p, int64_t lanes) {
  if (!plan.depthwise->picks_fast) return false;
  constexpr double kLongRow = 0.85, kLongRowOfBoxes = 0.3, kShortRow = 2, kFewLanes = 0.7, kLeastGain = 1.05;
  constexpr int64_t kManyLanes = 16;
  const int last = p.ndims - 1;
  const int64_t classes = plan.axis[last].dst_step;
  const bool in_boxes = classes > 1 && p.ker[last] % classes == 0;
  const double rows = kShortRow * static_cast<double>(lanes) / static_cast<double>(p.dst_size[last]);
  const double used = static_cast<double>(p.g) / static_cast<double>(align_up(p.g, lanes));
  return (rows + (in_boxes ? kLongRowOfBoxes : kLongRow)) * used * (lanes < kManyLanes ? kFewLanes : 1) > kLeastGain;
}

}  // namespace

bool prefers_channel_lanes(const Plan& plan, const ConvProblem& p) {
  const int last = plan.ndims - 1;
  if (plan.channel_lanes == Use::kNever || plan.ic != 1 || plan.oc != 1) return false;
  if (p.mb == 0 || p.src_x[last] != 1 || p.dst_x[last] != 1) return false;
  if (plan.op == Op::kConv && p.stride[last] != 1) return false;
  for (int a = 0; a <= last; ++a) {
    if (p.dst_size[a] == 0 || p.src_size[a] == 0) return false;
  }
  const int64_t classes = plan.axis[last].dst_step, ker = p.ker[last];
  const int64_t lanes = plan.cell_bytes == sizeof(double) ? plan.depthwise->lanes_f64 : plan.depthwise->lanes_f32;
  if (plan.num_taps * lanes > kMostWeights || classes * ker > kMostClassSteps) return false;
  if (plan.channel_lanes == Use::kWhereFaster && !is_faster(plan, p, lanes)) return false;
  return channel_lanes::Layout(plan, p, 1).copy_bytes <= kMostCopyBytes;
}

}  // namespace ortconv::kernels

#include "kernels/conv/channel_lanes_layout.h"

#include <algorithm>

#include "base/math.h"

namespace ortconv::kernels::channel_lanes {
namespace {

constexpr int64_t kCopyBytes = 128 << 10;  // copy of src, meant to stay in L2
constexpr int64_t kTilePositions = 256;    // sums that are written together

}  // namespace

Layout::Layout(const Plan& plan, const ConvProblem& p, int threads) : last(plan.ndims - 1) {
  const auto cell = plan.cell_bytes;
  lanes = cell == sizeof(double) ? plan.depthwise->lanes_f64 : plan.depthwise->lanes_f32;
  channel_blocks = ceil_div(p.g, lanes);
  outer_taps = 1;
  for (int a = 0; a <= last; ++a) {
    axis[a] = DepthwiseAxis(plan.op, p, a);
    if (a < last) outer_taps *= axis[a].ker;
  }
  DepthwiseAxis& x = axis[last];
  taps = outer_taps * x.ker;
  x.cut(std::max<int64_t>(1, kTilePositions / x.classes));
  pitch = x.src_reach();
  const int64_t row_bytes = pitch * lanes * static_cast<int64_t>(cell);
  copy_bytes = cut_axes(axis, last, kCopyBytes / row_bytes) * row_bytes;
  // Two rows, if they lie next to each other in src as well, read it together.
  const DepthwiseAxis* rows = last == 0 ? nullptr : axis + last - 1;
  in_twos = rows != nullptr && rows->stride == 1 && rows->dilation == 1;
  most_rows = outer_taps + (in_twos ? outer_taps / rows->ker : 0);
  tile = std::max(kTilePositions, (in_twos ? 2 : 1) * x.block * x.classes);
  int64_t axis_taps = 0;
  for (int a = 0; a < last; ++a) axis_taps += axis[a].ker + 2;
  num_blocks = 1;
  for (int a = 0; a <= last; ++a) num_blocks *= axis[a].num_blocks;
  num_items = channel_blocks * p.mb * num_blocks;
  num_slices = std::min<int64_t>(std::max(threads, 1), num_items);

  slice_rows = 0;
  slice_weight_rows = slice_rows + align64(most_rows * sizeof(void*));
  slice_axis_taps = slice_weight_rows + align64(most_rows * kMaxLaneRows * sizeof(void*));
  slice_steps = slice_axis_taps + align64(axis_taps * sizeof(AxisTap));
  slice_classes = slice_steps + align64((2 * x.ker + x.classes + 1) * sizeof(int64_t));
  slice_bias = slice_classes + align64(x.classes * sizeof(ClassPositions));
  slice_weights = slice_bias + align64(lanes * cell);
  slice_copy = slice_weights + align64(taps * lanes * cell);
  slice_tile = slice_copy + align64(copy_bytes);
  slice_size = slice_tile + align64(tile * lanes * cell);
}

}  // namespace ortconv::kernels::channel_lanes

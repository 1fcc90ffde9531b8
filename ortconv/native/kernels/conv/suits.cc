// Decides whether this family computes a run, or the tiled kernels of kernels/im2col.
#include <algorithm>
#include <cstdint>

#include "kernels/conv/channel_lanes.h"
#include "kernels/conv/col2im.h"
#include "kernels/conv/depthwise.h"
#include "kernels/conv/geometry.h"

namespace ortconv::kernels {
namespace {

// This family always suits kernels that reach no farther than this, in src positions of a channel and along an axis.
constexpr double kNear = 1024, kNearAlongAxis = 4096, kNearCells = 1 << 24;
constexpr double kMostCells = 1e12;  // Geometry counts in int64
constexpr double kFreeBytes = 8 << 20, kMostDepthwiseBytes = 1 << 20;

double size_of(const int64_t* sizes, int count) {
  double size = 1;
  for (int a = 0; a < count; ++a) size *= static_cast<double>(sizes[a]);
  return size;
}

// Estimated costs, in products: copying a cell of src here, copying one into patches, adding one column.
constexpr double kCopyCost = 20, kPatchCost = 10, kAddCost = 30, kLeastGain = 2;

bool is_faster(const Plan& plan, const ConvProblem& p) {
  const Geometry geometry(plan, p, 1);
  double positions = static_cast<double>(p.mb);
  for (int a = 0; a < p.ndims; ++a) positions *= static_cast<double>(geometry.axis[a].positions);
  const auto ic = static_cast<double>(plan.ic), oc = static_cast<double>(plan.oc);
  const double taps = size_of(p.ker, p.ndims), blocks = static_cast<double>(geometry.num_items) /
                                                        static_cast<double>(geometry.items_per_block * plan.g);
  const double copied = blocks * ic * static_cast<double>(geometry.channel_stride);
  const double here = copied * kCopyCost + positions * taps * ic * oc;
  const double src = static_cast<double>(p.mb) * size_of(p.src_size, p.ndims);
  const double in_tiles =
      plan.op == Op::kConv ? positions * taps * ic * (oc + kPatchCost) : src * taps * oc * (ic + kAddCost);
  return here <= kLeastGain * in_tiles;
}

}  // namespace

bool suits(const Plan& plan, const ConvProblem& p) {
  if (!plan.exact_enough) return false;
  double reach = 1, along_axis = 1, cells = static_cast<double>(plan.ic);
  for (int a = 0; a < p.ndims; ++a) {
    const double kernel = static_cast<double>(p.ker[a] + 1) * static_cast<double>(p.dilation[a]);
    const auto stride = static_cast<double>(p.stride[a]), size = static_cast<double>(p.dst_size[a]);
    reach *= plan.op == Op::kConv ? kernel : kernel / stride + 1;
    along_axis = std::max({along_axis, kernel, plan.op == Op::kConv ? stride : 1});
    cells *= plan.op == Op::kConv ? size * stride + kernel : size / stride + kernel;
  }
  if (reach <= kNear && along_axis <= kNearAlongAxis && static_cast<double>(plan.ic) * reach <= kNearCells) return true;
  if (cells > kMostCells) return false;
  const double data =
      (static_cast<double>(p.mb * p.ic) * size_of(p.src_size, p.ndims) +
       static_cast<double>(p.mb * p.oc) * size_of(p.dst_size, p.ndims) + static_cast<double>(plan.packed_size())) *
      static_cast<double>(plan.cell_bytes);
  const auto scratch = static_cast<double>(scratch_bytes(plan, p, 1));
  if (scratch > kFreeBytes + data) return false;
  if (prefers_channel_lanes(plan, p) || prefers_depthwise(plan, p)) return scratch <= kMostDepthwiseBytes;
  return prefers_col2im(plan, p) || is_faster(plan, p);
}

}  // namespace ortconv::kernels

// Groups of one input channel each: row by row, see kernels/conv/depthwise.h, or with channels in the lanes of vectors,
// see kernels/conv/channel_lanes.h.
#include "kernels/conv/depthwise.h"

#include "kernels/conv/channel_lanes.h"
#include "kernels/conv/channel_lanes_layout.h"
#include "kernels/conv/depthwise_layout.h"
#include "ops/implementations/direct.h"
#include "ops/implementations/sizes.h"

namespace ortconv::implementations {
namespace {

using kernels::DepthwiseLayout;
using LanesLayout = kernels::channel_lanes::Layout;

class Depthwise : public UnpackedDirect<kernels::depthwise_scratch_bytes, kernels::run_depthwise> {
 public:
  Depthwise(const Node& node, kernels::PlanPtr sizes) : UnpackedDirect(node, std::move(sizes)) {}

  std::optional<Work> work(const ConvProblem& p) const override {
    if (!counts_fit(node().op, p) || !kernels::can_run_depthwise(sizes(), p) || !is_moderate(p)) return std::nullopt;
    const DepthwiseLayout layout(sizes(), p, 1);
    const kernels::DepthwiseAxis& x = layout.axis[layout.last];
    const auto items = static_cast<double>(layout.num_items), channels = static_cast<double>(p.oc);
    double positions = 1, rows = 1;
    for (int a = 0; a < layout.last; ++a) {
      positions *= static_cast<double>(layout.axis[a].block);
      rows *= static_cast<double>(layout.axis[a].classes);
    }
    const auto vectors = static_cast<double>(layout.block_vectors);
    // Where taps and phases are not complete boxes, weights are looked up, and zeros are among them.
    const bool in_boxes = !layout.plain && x.ker % x.classes == 0 && x.dilation == 1;
    const double lookup = layout.plain || in_boxes ? 1 : 3;
    Work work;
    work.items = items;
    // Each position reads its rows of src once and sums all rows of dst of its classes.
    work.products = lookup * items * positions * static_cast<double>(layout.outer_taps) *
                    static_cast<double>(layout.most_steps) * vectors * static_cast<double>(layout.lanes);
    work.calls = items * positions * rows;
    work.copied = items * static_cast<double>(layout.copy_rows * layout.pitch);
    work.added = channels * static_cast<double>(layout.outer_taps * layout.most_steps) *
                 (layout.plain ? 4 : static_cast<double>(layout.patterns * layout.lanes));  // weights that are laid out
    work.stored = dst_count(p);
    work.steps = items * static_cast<double>(layout.copy_rows) + static_cast<double>(layout.row_taps) +
                 static_cast<double>(x.ker * layout.patterns * (layout.plain ? 1 : layout.lanes)) +
                 items * positions * static_cast<double>(layout.row_taps);
    // Of a large dst, lines that two short rows share are fetched to be written.
    constexpr double kLarge = 12 << 20, kFetched = 2;
    constexpr int64_t kShortRow = 4096;
    const bool fetches =
        layout.store == kernels::Store::kCached && p.dst_size[layout.last] < kShortRow && 4 * dst_count(p) > kLarge;
    work.far = far_bytes(4 * src_count(p)) + (fetches ? kFetched : 1) * far_bytes(4 * dst_count(p));
    return work;
  }
};

class ChannelLanes : public UnpackedDirect<kernels::channel_lanes_scratch_bytes, kernels::run_channel_lanes> {
 public:
  ChannelLanes(const Node& node, kernels::PlanPtr sizes) : UnpackedDirect(node, std::move(sizes)) {}

  std::optional<Work> work(const ConvProblem& p) const override {
    if (!counts_fit(node().op, p) || !kernels::can_run_channel_lanes(sizes(), p) || !is_moderate(p)) {
      return std::nullopt;
    }
    const LanesLayout layout(sizes(), p, 1);
    const auto items = static_cast<double>(layout.num_items), lanes = static_cast<double>(layout.lanes);
    const auto blocks = static_cast<double>(layout.channel_blocks);
    double positions = static_cast<double>(p.mb);
    for (int a = 0; a < p.ndims; ++a) positions *= static_cast<double>(layout.axis[a].positions);
    const kernels::DepthwiseAxis& x = layout.axis[layout.last];
    Work work;
    work.items = items;
    work.products = blocks * positions * static_cast<double>(layout.taps) * lanes;
    // One for each class of a row of dst, or of two.
    work.calls = blocks * dst_rows(p) * static_cast<double>(std::min(x.classes, p.dst_size[layout.last])) /
                 (layout.in_twos ? 2 : 1);
    work.copied = items * static_cast<double>(layout.copy_bytes) / static_cast<double>(sizes().cell_bytes) +
                  blocks * static_cast<double>(layout.taps) * lanes;
    work.stored = blocks * lanes * dst_positions(p);
    work.steps = items * static_cast<double>(layout.most_rows) + dst_rows(p) * static_cast<double>(p.oc) +
                 blocks * dst_rows(p) * static_cast<double>(layout.outer_taps);
    work.far = far_bytes(4 * src_count(p)) + far_bytes(4 * dst_count(p));
    return work;
  }
};

template <class Way>
std::unique_ptr<Implementation> make(const Node& node) {
  if (node.problem.ic != node.problem.g) return nullptr;
  kernels::PlanPtr sizes = plan_without_weights(node);
  return sizes == nullptr ? nullptr : std::make_unique<Way>(node, std::move(sizes));
}

}  // namespace

std::unique_ptr<Implementation> make_depthwise(const Node& node) { return make<Depthwise>(node); }
std::unique_ptr<Implementation> make_channel_lanes(const Node& node) { return make<ChannelLanes>(node); }

}  // namespace ortconv::implementations

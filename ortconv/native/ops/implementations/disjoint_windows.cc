// Windows that do not overlap, see kernels/disjoint_windows.
#include "kernels/disjoint_windows/disjoint_windows.h"

#include <algorithm>

#include "kernels/disjoint_windows/plan.h"
#include "ops/implementations/limits.h"
#include "ops/implementations/packed.h"
#include "ops/implementations/sizes.h"

namespace ortconv::implementations {
namespace {

namespace disjoint_windows = kernels::disjoint_windows;

class DisjointWindows
    : public Packed<disjoint_windows::make_plan, disjoint_windows::scratch_bytes, disjoint_windows::run> {
 public:
  using Packed::Packed;

  std::optional<Work> work(const ConvProblem& p) const override {
    if (!disjoint_windows::can_run(p)) return std::nullopt;
    const disjoint_windows::Plan& plan = sizes();
    // A tile has several windows of a channel, however large one is.
    if (!is_in_proportion(disjoint_windows::scratch_bytes(plan, p, 1), p, sizeof(float))) return std::nullopt;
    const disjoint_windows::Geometry geo(plan, p, 1);
    const int64_t positions = product_of(p.src_size, p.ndims), rest = positions % plan.mr;
    if (positions < kLeastRows) return std::nullopt;
    // Products that fall outside dst are computed too.
    constexpr double kLeastShare = 0.7;
    double share = 1;
    for (int a = 0; a < p.ndims; ++a) {
      const int64_t reached = (p.src_size[a] - 1) * p.stride[a] + kernel_extent(p, a);
      share *= std::min(1.0, static_cast<double>(p.dst_size[a]) / static_cast<double>(reached));
    }
    if (share < kLeastShare) return std::nullopt;
    const auto rows = static_cast<double>(positions - rest + (rest == 0 ? 0 : std::max(rest, kLeastRows)));
    const double blocks = static_cast<double>(p.mb) * static_cast<double>(p.g * plan.num_blocks);
    const auto ic = static_cast<double>(plan.ic);
    Work work;
    work.items = static_cast<double>(geo.items);
    work.products = blocks * rows * static_cast<double>(plan.block_rows) * ic;
    work.calls = blocks * static_cast<double>(ceil_div(positions, plan.mr) * ceil_div(plan.block_rows, plan.panel) *
                                              ceil_div(plan.ic, plan.depth));
    work.copied = src_count(p) * static_cast<double>(plan.num_blocks) + (node().wei == nullptr ? weight_count(p) : 0);
    const double products = src_positions(p) * static_cast<double>(p.oc) * static_cast<double>(plan.taps);
    // Windows that padding or cropping cuts are copied row by row, after what is left of them is computed.
    constexpr double kCutSteps = 12, kCutWindow = 30;
    constexpr double kShortSteps = 2, kSingleSteps = 4;  // of rows of one or two taps; of numbers among others
    // Those of a tile that are written to more memory than L2 has room for, with what lies between them.
    constexpr double kFarSteps = 3, kNearBytes = 1 << 20;
    const double tiles = static_cast<double>(ceil_div(positions, geo.tile));
    const double written = 4 * dst_count(p) / (blocks * tiles);
    const bool single = plan.row == 1 && p.stride[p.ndims - 1] > 1;
    const double step = (single          ? kSingleSteps
                         : plan.row <= 2 ? kShortSteps
                                         : 1) +
                        (written > kNearBytes ? kFarSteps : 0);
    work.steps = step * products / static_cast<double>(plan.row) +
                 blocks * cut_positions(p) * (kCutWindow + kCutSteps * static_cast<double>(plan.taps / plan.row));
    constexpr double kFilled = 0.15;
    work.stored = std::min(products, dst_count(p)) + (geo.gaps ? kFilled * dst_count(p) : 0);
    work.far_weights = far_bytes(4 * weight_count(p), static_cast<double>(p.mb * ceil_div(positions, geo.tile)));
    constexpr double kAmongGaps = 1.4;  // lines that taps reach in part are fetched
    work.far = far_bytes(4 * src_count(p), static_cast<double>(plan.num_blocks)) +
               (geo.gaps_lie_far ? kAmongGaps : 1) * far_bytes(4 * dst_count(p));
    return work;
  }

 private:
  // Positions of an image whose windows do not lie in dst whole.
  static double cut_positions(const ConvProblem& p) {
    double all = 1, whole = 1;
    for (int a = 0; a < p.ndims; ++a) {
      const int64_t first = ceil_div(p.pad[a], p.stride[a]);
      const int64_t end = floor_div(p.dst_size[a] + p.pad[a] - kernel_extent(p, a), p.stride[a]) + 1;
      all *= static_cast<double>(p.src_size[a]);
      whole *= static_cast<double>(std::max<int64_t>(0, std::min(end, p.src_size[a]) - first));
    }
    return all - whole;
  }
};

}  // namespace

std::unique_ptr<Implementation> make_disjoint_windows(const Node& node) {
  if (node.op != kernels::Op::kConvTranspose || !disjoint_windows::takes(node.problem)) return nullptr;
  return std::make_unique<DisjointWindows>(node);
}

}  // namespace ortconv::implementations

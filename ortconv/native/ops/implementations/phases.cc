// Output phases by implicit GEMM, see kernels/conv/conv.h.
#include "kernels/conv/bf16_split_stages.h"
#include "kernels/conv/geometry.h"
#include "ops/implementations/direct.h"
#include "ops/implementations/sizes.h"

namespace ortconv::implementations {
namespace {

using kernels::AxisFrame;
using kernels::GemmGroup;
using kernels::Geometry;
using kernels::Plan;

class Phases : public PackedDirect {
 public:
  Phases(const Node& node, const kernels::PlanPtr& sizes) : PackedDirect(node, sizes, kernels::Packing::kPhases) {
    const bool in_parts = node.wei != nullptr && kernels::parts_pay(*sizes, node.arch, node.wei);
    if (in_parts) product_cost_ = kernels::parts_cost(*sizes, node.arch);
    packed_bytes_ = in_parts ? sizeof(uint16_t) * static_cast<double>(kernels::parts_packed_size(*sizes))
                             : (sizes->in_pairs() ? 2 : 4) * weight_count(node.problem);
  }

  std::optional<Work> work(const ConvProblem& p) const override {
    const Plan& plan = sizes();
    if (!plan.exact_enough || !is_moderate(p)) return std::nullopt;
    const Geometry geo(plan, p, 1);
    const auto blocks = static_cast<double>(geo.num_items / geo.items_per_block);  // of all groups
    const auto ic = static_cast<double>(plan.ic);
    int64_t cells = (geo.batch_block - 1) * geo.axis[0].grid * geo.axis[0].grid_stride + 1;
    double planes = static_cast<double>(geo.outer_planes);
    for (int a = 0; a < plan.ndims; ++a) cells += (geo.axis[a].block - 1) * geo.axis[a].grid_stride;
    planes *= static_cast<double>(geo.axis[plan.ndims - 1].num_planes);
    const auto columns = static_cast<double>(align_up(cells, kernels::kGemmColumns));
    const double tiles = std::ceil(static_cast<double>(cells) / static_cast<double>(geo.columns));
    const auto chunks = static_cast<double>(ceil_div(plan.ic, plan.k_chunk));
    Work work;
    work.items = blocks;
    double panels = 0, classes = 0, empty_classes = 0;
    for (const GemmGroup& group : plan.groups) {
      if (group.num_taps == 0) {
        empty_classes += static_cast<double>(group.num_classes);
        continue;
      }
      classes += static_cast<double>(group.num_classes);
      const int64_t rows = plan.oc * group.num_classes, most = plan.mr;
      const int64_t whole = rows / most * most, rest = rows - whole;
      const auto used = static_cast<double>(whole + (rest == 0 ? 0 : std::max(rest, kLeastRows)));
      work.products += used * static_cast<double>(group.num_taps);
      panels += static_cast<double>(ceil_div(rows, most));
    }
    // Rows that are read where they lie begin anywhere in a cache line, and in a large src each on another page.
    constexpr double kInPlace = 1.05, kFarInPlace = 1.25;
    const double in_place = share_in_place(geo, p);
    const double far_src = far_bytes(4 * src_count(p));
    work.products *= 1 + in_place * ((far_src > 0 ? kFarInPlace : kInPlace) - 1);
    work.products *= product_cost_ * blocks * columns * ic;
    work.calls = blocks * tiles * panels * chunks;
    // The last block cannot be read where it is: the GEMM reads beyond its positions.
    const double copies = std::max(1.0, (1 - in_place) * blocks);
    work.copied = copies * ic * static_cast<double>(geo.channel_stride);
    if (!has_constant_weights()) work.copied += weight_count(p);
    // What is added up outside of the registers: chunks of channels, and classes that several groups have. The sums of
    // classes without taps are filled with zeros.
    const double additions = (plan.merged ? chunks : chunks - 1) * classes + empty_classes;
    work.added = additions * blocks * columns * static_cast<double>(plan.oc);
    work.stored = dst_count(p);
    work.steps = copies * ic * planes * static_cast<double>(geo.image_rows * geo.batch_block) +
                 dst_rows(p) * static_cast<double>(p.oc) + static_cast<double>(plan.num_taps);
    work.far_weights = far_bytes(packed_bytes_, std::max(1.0, blocks / static_cast<double>(plan.g)));
    work.far = far_src + far_bytes(4 * dst_count(p));
    return work;
  }

 private:
  // The share of the blocks whose src is read where it lies; those between the first and the last one are alike.
  double share_in_place(const Geometry& geo, const ConvProblem& p) const {
    if (!kernels::may_read_in_place(sizes()) || geo.batch_block > 1) return 0;
    double share = 1;
    for (int a = 0; a < p.ndims; ++a) {
      const AxisFrame& f = geo.axis[a];
      const auto in_place = [&](int64_t block) -> int64_t {
        const int64_t begin = block * f.block, count = std::min(f.block, f.positions - begin);
        return kernels::lies_in_src(sizes().axis[a], f, begin, count, p.src_size[a], p.src_x[a]) ? 1 : 0;
      };
      const int64_t last = f.num_blocks - 1;
      int64_t blocks = in_place(0);
      if (last > 0) blocks += in_place(last);
      if (last > 1) blocks += (last - 1) * in_place(1);
      share *= static_cast<double>(blocks) / static_cast<double>(f.num_blocks);
    }
    return share;
  }

  double product_cost_ = 1;  // of numbers in parts, if they are multiplied so; that of floats is 1
  double packed_bytes_;      // of weights
};

}  // namespace

std::unique_ptr<Implementation> make_phases(const Node& node) {
  const kernels::PlanPtr sizes = plan_without_weights(node);
  return sizes == nullptr ? nullptr : std::make_unique<Phases>(node, sizes);
}

}  // namespace ortconv::implementations

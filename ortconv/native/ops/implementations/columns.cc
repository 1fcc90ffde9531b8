// A few positions multiplied with weights as they lie, see kernels/conv/col2im.h.
#include "kernels/conv/col2im.h"
#include "ops/implementations/direct.h"
#include "ops/implementations/sizes.h"

namespace ortconv::implementations {
namespace {

class Columns : public UnpackedDirect<kernels::columns_scratch_bytes, kernels::run_columns> {
 public:
  Columns(const Node& node, kernels::PlanPtr sizes) : UnpackedDirect(node, std::move(sizes)) {}

  std::optional<Work> work(const ConvProblem& p) const override {
    const kernels::Plan& plan = sizes();
    if (!kernels::can_run_columns(plan, p) || !is_moderate(p)) return std::nullopt;
    constexpr double kLeastRows = 4;
    const double rows = src_positions(p), ic = static_cast<double>(plan.ic), groups = static_cast<double>(p.g);
    const double columns = static_cast<double>(plan.oc) * taps_of(p);
    const double most = static_cast<double>(plan.mr), rest = rows - std::floor(rows / most) * most;
    const double used = rows - rest + (rest == 0 ? 0 : std::max(rest, kLeastRows));
    const double items = std::max(1.0, columns / 1024);
    Work work;
    work.items = groups * items;
    work.products = groups * used * rounded_up(columns, 16) * ic;
    work.calls = groups * std::ceil(rows / most) * items;
    // Weights of 16 bits are widened as they lie, in less time than src, whose rows become columns.
    constexpr double kWidened = 0.3;
    work.copied = groups * ic * (rows + (plan.element_bytes == plan.cell_bytes ? 16 * items : kWidened * columns));
    work.added = groups * rows * columns;
    work.steps =
        groups * rows * columns / static_cast<double>(p.ker[p.ndims - 1]) + dst_rows(p) * static_cast<double>(p.oc);
    work.stored = dst_count(p);
    work.far = far_bytes(4 * weight_count(p), 1) + far_bytes(4 * dst_count(p));
    return work;
  }
};

}  // namespace

std::unique_ptr<Implementation> make_columns(const Node& node) {
  if (node.op != kernels::Op::kConvTranspose) return nullptr;
  kernels::PlanPtr sizes = plan_without_weights(node);
  return sizes == nullptr ? nullptr : std::make_unique<Columns>(node, std::move(sizes));
}

}  // namespace ortconv::implementations

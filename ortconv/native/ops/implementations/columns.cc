// A few positions multiplied with weights in the order in which they lie, see kernels/conv/col2im.h.
#include <mutex>

#include "base/buffer.h"
#include "kernels/conv/col2im.h"
#include "ops/implementations/direct.h"
#include "ops/implementations/sizes.h"

namespace ortconv::implementations {
namespace {

class Columns : public Direct {
 public:
  Columns(const Node& node, kernels::PlanPtr sizes)
      : Direct(node, std::move(sizes)),
        is_widened_(has_constant_weights() && this->sizes().element_bytes != this->sizes().cell_bytes) {}

  std::optional<Work> work(const ConvProblem& p) const override {
    const kernels::Plan& plan = sizes();
    const auto bytes = [&](const auto&, const ConvProblem& problem, int threads) {
      return scratch_bytes(problem, threads);
    };
    if (!kernels::can_run_columns(plan, p) || !is_moderate(p, bytes)) return std::nullopt;
    constexpr double kFewestRows = 2;  // a call of one row takes as long
    const double rows = src_positions(p), ic = static_cast<double>(plan.ic), groups = static_cast<double>(p.g);
    const double columns = static_cast<double>(plan.oc) * taps_of(p);
    const double most = static_cast<double>(plan.mr), rest = rows - std::floor(rows / most) * most;
    const double used = rows - rest + (rest == 0 ? 0 : std::max(rest, kFewestRows));
    const double items = std::max(1.0, columns / 1024);
    Work work;
    work.items = groups * items;
    work.products = groups * used * rounded_up(columns, 16) * ic;
    work.calls = groups * std::ceil(rows / most) * items;
    // Weights of 16 bits that are not constant are widened as they lie, in less time than src, whose rows become
    // columns.
    constexpr double kWidened = 0.3;
    const bool widens = !is_widened_ && plan.element_bytes != plan.cell_bytes;
    work.copied = groups * ic * (rows + (widens ? kWidened * columns : 16 * items));
    // Columns that lie apart in dst are added one by one.
    constexpr double kApart = 2;
    const bool lie_together = p.dilation[p.ndims - 1] == 1;
    const double landing = landing_pairs(p) * groups * rows * columns;
    work.added = (lie_together ? 1 : kApart) * landing;
    constexpr double kOfPosition = 16;  // steps that finding a window takes
    work.steps = landing / static_cast<double>(p.ker[p.ndims - 1]) + kOfPosition * groups * rows * items +
                 filled_lines(p) * static_cast<double>(p.mb * p.oc);
    work.stored = dst_count(p);
    work.far_weights = far_bytes(4 * weight_count(p));
    if (rows == 1) work.products = products_beside(work.far_weights, work.products);
    work.far = far_bytes(4 * dst_count(p));
    return work;
  }
  void pack(const void* wei) const override {
    if (is_widened_) std::call_once(once_, [&] { widened_ = kernels::widened_weights(sizes(), wei); });
  }
  size_t scratch_bytes(const ConvProblem& problem, int threads) const override {
    return kernels::columns_scratch_bytes(sizes(), problem, threads, is_widened_);
  }
  bool run(const ConvProblem& problem, const Tensors& t, const Parallel& parallel) const override {
    const kernels::ColumnWeights wei{t.wei, is_widened_ ? widened_.as<float>() : nullptr};
    kernels::run_columns(sizes(), problem, t.src, wei, t.bias, t.dst, t.scratch, parallel);
    return true;
  }

 private:
  // Lines of a channel that are filled with the bias: axes whose positions follow each other at once.
  static double filled_lines(const ConvProblem& p) {
    int axes = p.ndims - 1;
    int64_t length = p.dst_size[axes];
    for (; axes > 0 && p.dst_x[axes - 1] == length * p.dst_x[p.ndims - 1]; --axes) length *= p.dst_size[axes - 1];
    return product(p.dst_size, axes);
  }

  const bool is_widened_;
  mutable std::once_flag once_;
  mutable Buffer widened_;
};

}  // namespace

std::unique_ptr<Implementation> make_columns(const Node& node) {
  if (node.op != kernels::Op::kConvTranspose) return nullptr;
  kernels::PlanPtr sizes = plan_without_weights(node);
  return sizes == nullptr ? nullptr : std::make_unique<Columns>(node, std::move(sizes));
}

}  // namespace ortconv::implementations

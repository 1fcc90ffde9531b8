// Small images tap by tap, see kernels/conv/tapwise.h.
#include "kernels/conv/tapwise.h"

#include "kernels/conv/tapwise_layout.h"
#include "ops/implementations/direct.h"
#include "ops/implementations/sizes.h"

namespace ortconv::implementations {
namespace {

class Tapwise : public PackedDirect {
 public:
  Tapwise(const Node& node, kernels::PlanPtr sizes) : PackedDirect(node, std::move(sizes), kernels::Packing::kTaps) {}

  std::optional<Work> work(const ConvProblem& p) const override {
    if (!kernels::can_run_tapwise(sizes(), p) || !is_moderate(p)) return std::nullopt;
    const kernels::tapwise::Blocks blocks(sizes());
    const kernels::tapwise::Layout layout(sizes(), p, 1);
    const bool in_pairs = kernels::tapwise_pairs_kernel(node().dtype, node().arch) != nullptr;
    double met = static_cast<double>(p.mb), classes = 1, rows = 1;
    for (int a = 0; a < p.ndims; ++a) {
      const double of_axis = landing_pairs(p, a);
      met *= of_axis;
      classes *= static_cast<double>(ceil_div(p.dst_size[a], p.stride[a]) * p.stride[a]);
      if (a + 1 < p.ndims) rows *= of_axis;
    }
    const auto groups = static_cast<double>(p.g), depth = static_cast<double>(p.ic / p.g);
    const auto columns = static_cast<double>(blocks.columns());
    Work work;
    work.items = groups * static_cast<double>(blocks.count * p.mb);
    work.products = groups * met * depth * columns / (in_pairs ? 2 : 1);
    work.added = groups * met * columns * std::ceil(depth / 256);
    const auto last_taps = static_cast<double>(p.ker[p.ndims - 1]);
    // Rows of images whose positions are multiplied together.
    const double lines = rows * last_taps * static_cast<double>(layout.along_batch ? layout.num_blocks : p.mb);
    const double calls = lines * std::ceil(met / lines / static_cast<double>(sizes().mr));
    work.calls = groups * static_cast<double>(blocks.count) * calls;
    work.products *= std::max(1.0, static_cast<double>(kLeastRows) * calls / met);
    // An odd block leaves one of two threads idle, while other implementations divide positions as well. What is chosen
    // does not depend on the number of threads, so one thread pays a little for two.
    constexpr double kIdle = 0.2;
    const int64_t parts = p.g * layout.num_blocks * blocks.count;
    if (parts > 2) work.products *= 1 + kIdle * static_cast<double>(parts % 2) / static_cast<double>(parts);
    work.copied = src_count(p);
    work.stored = groups * static_cast<double>(p.mb) * classes * columns;
    work.steps = dst_rows(p) * static_cast<double>(p.oc);
    work.far_weights =
        far_bytes((in_pairs ? 2 : 4) * weight_count(p) * landing_taps(p), static_cast<double>(layout.num_blocks));
    work.far = far_bytes(4 * dst_count(p)) + far_bytes(4 * src_count(p));
    return work;
  }
};

}  // namespace

std::unique_ptr<Implementation> make_tapwise(const Node& node) {
  if (node.wei == nullptr || !kernels::takes_tapwise(node.op, node.problem, node.dtype, node.wei, node.arch)) {
    return nullptr;
  }
  kernels::PlanPtr sizes = plan_without_weights(node);
  return sizes == nullptr ? nullptr : std::make_unique<Tapwise>(node, std::move(sizes));
}

}  // namespace ortconv::implementations

// Minimal filtering, see kernels/winograd.
#include "kernels/winograd/winograd.h"

#include <mutex>

#include "kernels/winograd/work.h"
#include "ops/implementations/implementation.h"
#include "ops/implementations/limits.h"
#include "ops/implementations/sizes.h"

namespace ortconv::implementations {
namespace {

namespace winograd = kernels::winograd;

class Filtering : public Implementation {
 public:
  Filtering(const Node& node, winograd::Windows windows, winograd::PlanPtr sizes)
      : node_(node), windows_(windows), sizes_(std::move(sizes)) {}

  std::optional<Work> work(const ConvProblem& p) const override {
    if (!winograd::can_run(p) || !counts_fit(node_.op, p)) return std::nullopt;
    // Products that cancel each other would leave a rounding error where nothing is to be added to the bias.
    if (!every_output_is_reached(node_.op, p)) return std::nullopt;
    // The transformed src is several times as large as src.
    constexpr size_t kTimes = 4 * sizeof(float);
    if (!is_in_proportion(winograd::scratch_bytes(*sizes_, p, 1), p, kTimes)) return std::nullopt;
    constexpr double kLanes = 16;
    const winograd::Work counts = winograd::work_of(*sizes_, p);
    Work work;
    work.steps = counts.split;
    constexpr double kSeparate = 1.05;  // products of separate windows take longer
    // What takes longer with AVX2: putting aside a piece of a sum, in products, and shuffling many phases, in stores.
    const double piece = node_.arch.avx512 ? 0 : 3, shuffle = node_.arch.avx512 ? 0 : 1;
    work.products =
        (counts.products + piece * counts.pieces) * kLanes * (windows_ == winograd::Windows::kSeparate ? kSeparate : 1);
    work.copied = counts.source * kLanes;
    work.added = counts.results * kLanes;
    work.stored = (counts.stores + shuffle * counts.shuffled) * kLanes;
    // What reading weights from a slow L3 takes, in multiples of what the table of costs says.
    constexpr double kFromSlowL3 = 3;
    work.far_weights = counts.weights * kLanes * sizeof(float) * (node_.arch.slow_l3 ? kFromSlowL3 : 1);
    work.far = far_bytes(4 * src_count(p)) + far_bytes(4 * dst_count(p));
    return work;
  }
  void pack(const void* wei) const override {
    std::call_once(
        packed_, [&] { plan_ = winograd::make_plan(node_.op, node_.problem, windows_, node_.dtype, wei, node_.arch); });
  }
  size_t scratch_bytes(const ConvProblem& problem, int threads) const override {
    return winograd::scratch_bytes(*plan_, problem, threads);
  }
  bool run(const ConvProblem& problem, const Tensors& t, const Parallel& parallel) const override {
    return winograd::run(*plan_, problem, t.src, t.bias, t.dst, t.scratch, parallel);
  }

 private:
  const Node node_;
  const winograd::Windows windows_;
  const winograd::PlanPtr sizes_;
  mutable std::once_flag packed_;
  mutable winograd::PlanPtr plan_;
};

std::unique_ptr<Implementation> make(const Node& node, winograd::Windows windows) {
  if (node.wei == nullptr || node.is_exact) return nullptr;
  winograd::PlanPtr sizes = winograd::make_sizes(node.op, node.problem, windows, node.dtype, node.arch);
  if (sizes == nullptr || !winograd::takes_weights(node.op, node.problem, node.dtype, node.wei, node.arch)) {
    return nullptr;
  }
  return std::make_unique<Filtering>(node, windows, std::move(sizes));
}

}  // namespace

std::unique_ptr<Implementation> make_winograd(const Node& node) { return make(node, winograd::Windows::kShared); }
std::unique_ptr<Implementation> make_winograd_separate(const Node& node) {
  return make(node, winograd::Windows::kSeparate);
}

}  // namespace ortconv::implementations

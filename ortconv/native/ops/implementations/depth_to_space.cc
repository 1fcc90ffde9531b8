// Sub-pixel convolution, see kernels/depth_to_space.
#include "kernels/depth_to_space/depth_to_space.h"

#include <mutex>

#include "kernels/depth_to_space/kernel.h"
#include "ops/implementations/implementation.h"
#include "ops/implementations/sizes.h"

namespace ortconv::implementations {
namespace {

class DepthToSpace : public Implementation {
 public:
  explicit DepthToSpace(const Node& node) : node_(node) {
    if (node.wei == nullptr) plan_ = kernels::depth_to_space::make_plan(node.problem, node.dtype, nullptr, node.arch);
  }

  std::optional<Work> work(const ConvProblem& p) const override {
    if (!kernels::depth_to_space::suits(p)) return std::nullopt;
    const double outputs = static_cast<double>(p.oc) / static_cast<double>(p.g);
    Work work;
    work.steps = src_rows(p) * static_cast<double>(p.ic);
    work.products = rounded_up(src_positions(p), 16) * static_cast<double>(p.ic) * outputs * taps_of(p);
    if (is_in_pairs()) work.products /= 2;
    work.copied = src_count(p) + (node_.wei == nullptr ? weight_count(p) : 0);
    work.stored = dst_count(p);
    work.calls = dst_rows(p) * static_cast<double>(p.oc);
    work.far = far_bytes(4 * src_count(p)) + far_bytes(4 * dst_count(p)) + far_bytes(4 * weight_count(p));
    return work;
  }
  void pack(const void* wei) const override {
    if (node_.wei == nullptr) return;
    std::call_once(packed_,
                   [&] { plan_ = kernels::depth_to_space::make_plan(node_.problem, node_.dtype, wei, node_.arch); });
  }
  size_t scratch_bytes(const ConvProblem& problem, int threads) const override {
    return kernels::depth_to_space::scratch_bytes(*plan_, problem, threads);
  }
  bool run(const ConvProblem& problem, const Tensors& t, const Parallel& parallel) const override {
    kernels::depth_to_space::run(*plan_, problem, t.src, t.wei, t.bias, t.dst, t.scratch, parallel);
    return true;
  }

 private:
  // Whether two products of bf16 numbers take as long as one of floats.
  bool is_in_pairs() const {
    return node_.wei != nullptr && node_.dtype == DataType::kBfloat16 &&
           kernels::depth_to_space::get_pair_functions(node_.arch) != nullptr;
  }

  const Node node_;
  mutable std::once_flag packed_;
  mutable kernels::depth_to_space::PlanPtr plan_;
};

}  // namespace

std::unique_ptr<Implementation> make_depth_to_space(const Node& node) {
  if (node.op != kernels::Op::kConvTranspose) return nullptr;
  if (!kernels::depth_to_space::takes(node.problem, node.dtype, node.arch)) return nullptr;
  return std::make_unique<DepthToSpace>(node);
}

}  // namespace ortconv::implementations

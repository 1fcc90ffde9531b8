// Sub-pixel convolution, see kernels/depth_to_space.
#include "kernels/depth_to_space/depth_to_space.h"

#include "kernels/depth_to_space/kernel.h"
#include "ops/implementations/packed.h"
#include "ops/implementations/sizes.h"

namespace ortconv::implementations {
namespace {

namespace depth_to_space = kernels::depth_to_space;

class DepthToSpace : public Packed<depth_to_space::make_plan, depth_to_space::scratch_bytes, depth_to_space::run> {
 public:
  using Packed::Packed;

  std::optional<Work> work(const ConvProblem& p) const override {
    if (!depth_to_space::suits(p)) return std::nullopt;
    const double outputs = static_cast<double>(p.oc) / static_cast<double>(p.g);
    Work work;
    work.steps = src_rows(p) * static_cast<double>(p.ic);
    work.products = rounded_up(src_positions(p), 16) * static_cast<double>(p.ic) * outputs * taps_of(p);
    if (is_in_pairs()) work.products /= 2;
    work.copied = src_count(p) + (node().wei == nullptr ? weight_count(p) : 0);
    work.stored = dst_count(p);
    work.calls = dst_rows(p) * static_cast<double>(p.oc);
    work.far_weights = far_bytes(4 * weight_count(p));
    work.far = far_bytes(4 * src_count(p)) + far_bytes(4 * dst_count(p));
    return work;
  }

 private:
  // Whether two products of bf16 numbers take as long as one of floats.
  bool is_in_pairs() const {
    return node().wei != nullptr && node().dtype == DataType::kBfloat16 &&
           depth_to_space::get_pair_functions(node().arch) != nullptr;
  }
};

}  // namespace

std::unique_ptr<Implementation> make_depth_to_space(const Node& node) {
  if (node.op != kernels::Op::kConvTranspose) return nullptr;
  if (!depth_to_space::takes(node.problem, node.dtype, node.arch)) return nullptr;
  return std::make_unique<DepthToSpace>(node);
}

}  // namespace ortconv::implementations

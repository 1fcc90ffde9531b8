// GEMM, then col2im, see kernels/gemm_col2im.
#include "kernels/gemm_col2im/gemm_col2im.h"

#include <mutex>

#include "kernels/gemm_col2im/geometry.h"
#include "ops/implementations/implementation.h"
#include "ops/implementations/sizes.h"

namespace ortconv::implementations {
namespace {

namespace gemm_col2im = kernels::gemm_col2im;

class GemmCol2im : public Implementation {
 public:
  explicit GemmCol2im(const Node& node)
      : node_(node), sizes_(gemm_col2im::make_plan(node.problem, node.dtype, nullptr, node.arch)) {}

  std::optional<Work> work(const ConvProblem& p) const override {
    const gemm_col2im::Geometry geo(*sizes_, p, 1);
    constexpr double kLeastRows = 4;
    double positions = static_cast<double>(geo.axis[0].x_count * geo.inner_x), rows = sizes_->rows();
    const double groups = static_cast<double>(p.g), images = static_cast<double>(p.mb),
                 ic = static_cast<double>(sizes_->ic);
    const auto most = static_cast<double>(sizes_->mr);
    double row_runs = 1;  // runs of positions that are added at once
    for (int a = 0; a < geo.vector_axis; ++a) row_runs *= static_cast<double>(geo.axis[a].x_count);
    const double tiles = std::ceil(positions / static_cast<double>(geo.most_columns));
    const auto used = [&](double count) {
      const double rest = count - std::floor(count / most) * most;
      return count - rest + (rest == 0 ? 0 : std::max(rest, kLeastRows));
    };
    Work work;
    const double products = geo.wide ? used(positions) * rounded_up(rows, 16) : used(rows) * rounded_up(positions, 16);
    const double passes = std::ceil(ic / static_cast<double>(sizes_->depth));
    work.products = groups * images * products * ic;
    work.calls = groups * images * std::ceil((geo.wide ? positions : rows) / most) * tiles * passes;
    const double blocks = static_cast<double>(geo.num_blocks);
    work.copied = geo.reads_in_place && !geo.wide
                      ? 0
                      : groups * images * positions * ic *
                            (geo.all_depth ? blocks : std::ceil(rows * blocks / static_cast<double>(geo.tile_rows)));
    if (node_.wei == nullptr) work.copied += weight_count(p);
    work.added = geo.direct ? 0 : groups * images * rows * positions * (geo.wide ? 2 : 1);
    work.steps = groups * images * (geo.direct ? 0 : rows * std::max(row_runs, tiles)) +
                 dst_rows(p) * static_cast<double>(p.oc) +
                 groups * images * static_cast<double>(geo.num_blocks * geo.num_slabs);
    work.stored = dst_count(p);
    work.far =
        far_bytes(4 * weight_count(p), tiles * images) + far_bytes(4 * src_count(p)) + far_bytes(4 * dst_count(p));
    return work;
  }
  void pack(const void* wei) const override {
    if (node_.wei == nullptr) return;
    std::call_once(once_, [&] { packed_ = gemm_col2im::make_plan(node_.problem, node_.dtype, wei, node_.arch); });
  }
  size_t scratch_bytes(const ConvProblem& problem, int threads) const override {
    return gemm_col2im::scratch_bytes(plan(), problem, threads);
  }
  bool run(const ConvProblem& problem, const Tensors& t, const Parallel& parallel) const override {
    gemm_col2im::run(plan(), problem, t.src, t.wei, t.bias, t.dst, t.scratch, parallel);
    return true;
  }

 private:
  const gemm_col2im::Plan& plan() const { return packed_ == nullptr ? *sizes_ : *packed_; }

  const Node node_;
  const gemm_col2im::PlanPtr sizes_;
  mutable std::once_flag once_;
  mutable gemm_col2im::PlanPtr packed_;
};

}  // namespace

std::unique_ptr<Implementation> make_gemm_col2im(const Node& node) {
  if (node.op != kernels::Op::kConvTranspose) return nullptr;
  if (!gemm_col2im::takes(node.problem, node.dtype, node.arch)) return nullptr;
  return std::make_unique<GemmCol2im>(node);
}

}  // namespace ortconv::implementations

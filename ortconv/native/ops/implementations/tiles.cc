// Products of tiles of the weights and of src, see kernels/im2col: whatever the sizes and the weights are.
#include "kernels/im2col/im2col_gemm.h"
#include "ops/implementations/implementation.h"
#include "ops/implementations/sizes.h"

namespace ortconv::implementations {
namespace {

namespace im2col = kernels::im2col;

class Tiles : public Implementation {
 public:
  Tiles(const Node& node, im2col::Way way) : node_(node), way_(way) {}

  std::optional<Work> work(const ConvProblem& p) const override {
    if (!im2col::can_run(way_, node_.op, p)) return std::nullopt;
    const auto groups = static_cast<double>(p.g);
    const double ic = static_cast<double>(p.ic) / groups, oc = static_cast<double>(p.oc) / groups;
    Work work;
    work.items = static_cast<double>(p.mb) * groups;
    work.stored = dst_count(p);
    work.far = far_bytes(4 * src_count(p)) + far_bytes(4 * dst_count(p));
    if (way_ == im2col::Way::kPatches) {
      const double positions = rounded_up(dst_positions(p), 16), products = ic * taps_of_tiles(p);
      work.products = groups * std::max(oc, 4.0) * positions * products;
      work.copied = groups * products * positions + weight_count(p) * std::max(1.0, positions / 2048);
      // Numbers of 16 bits take twice as long to copy, and results are rounded in a pass of their own.
      constexpr double kWidened = 2;
      if (size_of(node_.dtype) < sizeof(float)) work.copied = kWidened * work.copied + dst_count(p);
      work.added = groups * oc * positions * std::ceil(products / 256);
      work.calls = groups * std::ceil(oc / 6) * std::ceil(products / 256) * std::ceil(positions / 512);
      work.steps = groups * products * dst_rows(p) + dst_rows(p) * static_cast<double>(p.oc);
      work.far += far_bytes(4 * weight_count(p));
      return work;
    }
    const auto images = static_cast<double>(p.mb);
    double positions = 1, taps = 1;
    for (int a = 0; a < p.ndims; ++a) {
      positions *= reaching_positions(p, a);
      taps *= static_cast<double>(reaching_taps(p, a));
    }
    const double tiles = images * std::ceil(positions / 256);  // each of an image, and packs the weights
    const double columns = oc * taps,
                 rows = columns / static_cast<double>(std::max<int64_t>(1, reaching_taps(p, p.ndims - 1)));
    work.products = groups * images * rounded_up(positions, 4) * rounded_up(columns, 16) * ic;
    work.copied = groups * ic * (images * positions * std::ceil(columns / 512) + columns * tiles);
    work.added = groups * images * positions * columns * (1 + std::ceil(ic / 256));
    work.calls = groups * images * std::ceil(positions / 6) * std::ceil(columns / 512) * std::ceil(ic / 256);
    // Runs of weights of 16 bits are widened, each by a call.
    const double runs = (size_of(node_.dtype) < sizeof(float) ? 3 : 1) * groups * ic * rows;
    work.steps = groups * images * positions * rows + dst_rows(p) * static_cast<double>(p.oc) + runs;
    work.far += far_bytes(4 * weight_count(p), tiles);
    return work;
  }
  size_t scratch_bytes(const ConvProblem& problem, int threads) const override {
    return im2col::scratch_bytes(way_, node_.op, problem, node_.dtype, node_.arch, threads);
  }
  bool run(const ConvProblem& problem, const Tensors& t, const Parallel& parallel) const override {
    im2col::run(way_, node_.op, problem, node_.dtype, node_.arch, t.src, t.wei, t.bias, t.dst, t.scratch, parallel);
    return true;
  }

 private:
  // Taps that meet src somewhere in a tile of dst, which has about kTile positions; the others are left out.
  double taps_of_tiles(const ConvProblem& p) const {
    constexpr double kTile = 512;
    double taps = 1, inner = 1;  // positions of the axes after this one
    for (int a = p.ndims - 1; a >= 0; --a) {
      const auto size = static_cast<double>(p.dst_size[a]);
      const double of_tile = std::clamp(std::ceil(kTile / inner), 1.0, size);
      const double span = node_.op == kernels::Op::kConv
                              ? static_cast<double>(p.src_size[a]) + (of_tile - 1) * static_cast<double>(p.stride[a])
                              : static_cast<double>(p.src_size[a]) + of_tile - 1;
      taps *= std::min({static_cast<double>(p.ker[a]), std::ceil(span / static_cast<double>(p.dilation[a])),
                        node_.op == kernels::Op::kConv ? HUGE_VAL : static_cast<double>(reaching_taps(p, a))});
      inner *= size;
    }
    return taps;
  }

  const Node node_;
  const im2col::Way way_;
};

}  // namespace

std::unique_ptr<Implementation> make_im2col(const Node& node) {
  return std::make_unique<Tiles>(node, im2col::Way::kPatches);
}
std::unique_ptr<Implementation> make_col2im(const Node& node) {
  return std::make_unique<Tiles>(node, im2col::Way::kColumns);
}

}  // namespace ortconv::implementations

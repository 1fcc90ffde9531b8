// Rows of src or of weights that slide along rows of dst, see kernels/sliding_rows.
#include "kernels/sliding_rows/sliding_rows.h"

#include "kernels/sliding_rows/plan.h"
#include "ops/implementations/limits.h"
#include "ops/implementations/packed.h"
#include "ops/implementations/sizes.h"

namespace ortconv::implementations {
namespace {

namespace sliding_rows = kernels::sliding_rows;
using sliding_rows::Operand;

template <Operand kSliding>
class SlidingRows : public Packed<sliding_rows::make_plan<kSliding>, sliding_rows::scratch_bytes, sliding_rows::run> {
 public:
  using Packed<sliding_rows::make_plan<kSliding>, sliding_rows::scratch_bytes, sliding_rows::run>::Packed;

  std::optional<Work> work(const ConvProblem& p) const override {
    const sliding_rows::Plan& plan = this->sizes();
    if (!counts_fit(this->node().op, p)) return std::nullopt;
    double lines = static_cast<double>(p.mb) * static_cast<double>(p.oc), table = 0;
    for (int a = 0; a < p.ndims - 1; ++a) {
      lines *= landing_pairs(p, a);
      table += static_cast<double>(p.src_size[a]) * static_cast<double>(p.ker[a]);
    }
    if (table > kMostPairs) return std::nullopt;
    // Packed weights have zeros among them.
    const size_t constant = this->node().wei == nullptr ? 0 : static_cast<size_t>(plan.packed_size()) * sizeof(float);
    if (!is_in_proportion(sliding_rows::scratch_bytes(plan, p, 1) + constant, p, sizeof(float))) return std::nullopt;
    const sliding_rows::Geometry geo(plan, p);
    const auto ic = static_cast<double>(plan.ic), lanes = static_cast<double>(plan.lanes);
    const auto tiles = static_cast<double>(ceil_div(p.dst_size[p.ndims - 1], geo.tiling.vectors * plan.lanes));
    const double products = lines / (dst_rows(p) * static_cast<double>(p.oc)) * ic * geo.tiling.steps;
    Work work;
    work.items = static_cast<double>(geo.items);
    work.products = lines * ic * geo.tiling.time * lanes;
    work.calls = work.items * tiles / static_cast<double>(geo.num_columns);
    // Between pieces, sums are put aside.
    work.added = std::max(0.0, std::floor(products / static_cast<double>(geo.piece))) * dst_count(p);
    work.copied = static_cast<double>(p.mb) * static_cast<double>(geo.src_image) +
                  (this->node().wei == nullptr ? weight_count(p) : 0);
    // Sums that are not stored as they are lie in memory in between.
    constexpr double kPasses = 2;
    if (!geo.direct) work.added += kPasses * dst_count(p);
    work.stored = dst_count(p);
    // Rows that are copied, or else loops of a tile over a pair of rows of a channel.
    constexpr double kLoop = 0.4;
    const double loops = lines / static_cast<double>(geo.tiling.rows) * ic * tiles;
    work.steps = (geo.copies_src ? src_rows(p) * static_cast<double>(p.ic) : kLoop * loops) + table;
    work.far_weights = far_bytes(4 * static_cast<double>(plan.packed_size()));
    work.far = far_bytes(4 * src_count(p)) + far_bytes(4 * dst_count(p)) + far_copies(p, geo, lines);
    return work;
  }

 private:
  static constexpr double kMostPairs = 1 << 20;  // of rows that meet

  // Bytes of copies of src that so many pairs of rows read from beyond L2, where an image does not stay in it.
  double far_copies(const ConvProblem& p, const sliding_rows::Geometry& geo, double pairs) const {
    const sliding_rows::Plan& plan = this->sizes();
    const int64_t row = std::min(geo.src_pitch, p.src_size[p.ndims - 1] + geo.tiling.vectors * plan.lanes);
    const double rows = product(p.src_size, p.ndims - 1);               // of a channel of an image
    const int64_t sharing = geo.rows_are_images ? 1 : geo.tiling.rows;  // dst channels that share what is read
    return far_bytes(4 * static_cast<double>(plan.ic * row) * rows, pairs / (static_cast<double>(sharing) * rows));
  }
};

template <Operand kSliding>
std::unique_ptr<Implementation> make(const Node& node) {
  if (node.op != kernels::Op::kConvTranspose || !sliding_rows::takes(node.problem, kSliding)) return nullptr;
  return std::make_unique<SlidingRows<kSliding>>(node);
}

}  // namespace

std::unique_ptr<Implementation> make_sliding_src(const Node& node) { return make<Operand::kSrc>(node); }
std::unique_ptr<Implementation> make_sliding_weights(const Node& node) { return make<Operand::kWeights>(node); }

}  // namespace ortconv::implementations

// GEMM, then col2im, see kernels/gemm_col2im.
#include "kernels/gemm_col2im/gemm_col2im.h"

#include "kernels/gemm_col2im/geometry.h"
#include "ops/implementations/packed.h"
#include "ops/implementations/sizes.h"

namespace ortconv::implementations {
namespace {

namespace gemm_col2im = kernels::gemm_col2im;

class GemmCol2im : public Packed<gemm_col2im::make_plan, gemm_col2im::scratch_bytes, gemm_col2im::run> {
 public:
  using Packed::Packed;

  std::optional<Work> work(const ConvProblem& p) const override {
    const gemm_col2im::Geometry geo(sizes(), p, 1);
    const auto groups = static_cast<double>(p.g), images = static_cast<double>(geo.images);
    const auto positions = static_cast<double>(geo.axis[0].x_count * geo.inner_x);
    const auto rows = static_cast<double>(sizes().rows()), ic = static_cast<double>(sizes().ic);
    const auto most = static_cast<double>(sizes().height), blocks = static_cast<double>(geo.num_blocks);
    double runs = 1;  // of positions that are added at once
    for (int a = 0; a < geo.vector_axis; ++a) runs *= static_cast<double>(geo.axis[a].x_count);
    const double tiles = std::ceil(positions / static_cast<double>(geo.most_columns));
    Work work;
    work.items = static_cast<double>(geo.items);
    const int64_t height = geo.wide ? geo.axis[0].x_count * geo.inner_x : sizes().rows();
    const double products = static_cast<double>(gemm_col2im::rows_of_calls(height, sizes().mr)) *
                            rounded_up(geo.wide ? rows : positions, 16);
    // Taps that reach dst from no position are left out; products and weights of theirs where they are whole panels.
    const double reaching = geo.direct ? 1 : landing_taps(p);
    const double multiplied = geo.direct ? 1 : multiplied_taps(p, geo.panel_height);
    const double runs_of_columns =  // that one call multiplies
        geo.in_strips && !geo.reads_in_place ? std::ceil(positions / static_cast<double>(geo.strip)) : tiles;
    constexpr double kLanes = 100;  // products that take as long as adding up the lanes of a vector
    work.products = groups * images * (geo.dots ? positions * rows * (ic + kLanes) : multiplied * products * ic);
    work.calls = groups * images * std::ceil(ic / static_cast<double>(geo.depth)) *
                 (geo.dots   ? positions
                  : geo.wide ? std::ceil(positions / static_cast<double>(sizes().mr)) *
                                   std::ceil(rows / static_cast<double>(geo.panel_height))
                             : std::ceil(rows / most) * runs_of_columns);
    // Each block of dst channels copies the tiles of src that were not kept.
    const auto kept = static_cast<double>(geo.src_copies);
    const double again = tiles <= kept ? 0 : 1 - (kept - 1) / tiles;
    const double copies =
        geo.all_depth ? 1 + (blocks - 1) * again : std::ceil(rows / static_cast<double>(geo.tile_rows));
    // Whole vectors of a src whose positions follow each other take less time than short rows, and those that the GEMM
    // stores as it multiplies them still less.
    const double share = geo.copied_by_gemm ? 0.25 : geo.in_strips && geo.dense ? 0.6 : 1;
    work.copied = (geo.reads_in_place ? 0 : share * groups * images * positions * ic * copies) +
                  (node().wei == nullptr ? weight_count(p) : 0);
    // Rows of sums, one of each position, are transposed.
    if (geo.wide && !geo.by_rows && positions > 1) work.copied += groups * images * positions * rows;
    // All of a src of 16 bits may be widened before, which takes less time for a number than a copy.
    constexpr double kWidened = 0.3;
    if (size_of(sizes().dtype) < sizeof(float) && !geo.narrow) work.copied += kWidened * src_count(p);
    work.added = geo.direct || geo.sums_parts ? 0 : groups * images * reaching * rows * positions;
    // A row takes as long as some of its runs, and so does a line that is stored. A short run takes less than a step,
    // and a vector or part of sums still less.
    constexpr double kShort = 16, kShortRun = 0.7, kPart = 0.6;
    const double run = positions <= kShort * runs ? kShortRun : 1;
    work.steps = geo.in_steps ? stored_steps(geo, p) : stored_lines(geo, p);
    if (geo.sums_parts) {
      const double parts = reaching * rows * runs * std::ceil(positions / runs / kernels::kSumLanes);
      work.steps += kPart * groups * images * (parts + static_cast<double>(sizes().oc * geo.num_vectors()));
    } else if (!geo.direct) {
      work.steps += groups * images * rows * (reaching * run * runs + 3 * tiles);
    }
    // What no tap reaches is filled.
    constexpr double kFilled = 0.15;
    double reached = groups * images * static_cast<double>(sizes().oc * geo.slots);
    for (int a = 0; a < geo.ndims; ++a) reached *= static_cast<double>(geo.axis[a].j_count);
    // Where slots are interleaved, zeros between them are written as well.
    const gemm_col2im::Axis& last = geo.axis[geo.ndims - 1];
    if (geo.num_zeros > 0 && last.dst_x == 1) {
      reached *= static_cast<double>(last.stride) / static_cast<double>(last.slots);
    }
    reached = std::min(reached, dst_count(p));
    // So many slots that they are written one by one, where no kernel transposes them.
    constexpr double kOneByOne = 3;
    constexpr int64_t kTransposed = 4;
    const bool one_by_one = last.slots > gemm_col2im::kMostPhases && !(last.in_order() && last.j_count >= kTransposed);
    if (geo.in_steps) reached = 0;
    // Products that lie as dst does, but for their type, are rounded in long runs.
    constexpr double kRounded = 0.4;
    const bool is_rounded = size_of(sizes().dtype) < sizeof(float) && geo.direct && geo.line == 0;
    const double of_sum = one_by_one ? kOneByOne : is_rounded && geo.axis[0].stride == 1 ? kRounded : 1;
    if (!geo.in_dst) work.stored = of_sum * reached + kFilled * (dst_count(p) - reached);
    // Weights of 16 bits are half as many bytes, but are widened.
    constexpr double kNarrowBytes = 2.8;
    const bool narrow_weights = sizes().bytes_in(geo.panel_height) < sizeof(float);
    const double weight_bytes = narrow_weights ? kNarrowBytes : sizeof(float);
    work.far_weights = far_bytes(weight_bytes * weight_count(p) * multiplied, tiles * images);
    if (positions == 1 && !geo.dots) work.products = products_beside(work.far_weights, work.products);
    constexpr double kPastCaches = 0.5;
    work.far = far_bytes(4 * src_count(p)) +
               ((geo.in_steps ? geo.gaps_lie_far : geo.stages_lines) ? kPastCaches : 1) * far_bytes(4 * dst_count(p));
    return work;
  }

 private:
  // The share of taps that are multiplied. A panel of weights is left out if none of its taps reaches dst. On each
  // axis, the taps that do not reach it are taken for one run.
  static double multiplied_taps(const ConvProblem& p, int64_t panel_height) {
    double share = 1;
    int64_t inner = 1;
    for (int a = p.ndims - 1; a >= 0; --a) {
      const int64_t run = (p.ker[a] - landing_taps(p, a)) * inner;
      inner *= p.ker[a];
      share *= 1 - static_cast<double>(std::max<int64_t>(0, run - panel_height)) / static_cast<double>(inner);
    }
    return share;
  }

  // Runs of sums in vectors of dst: of each slot its own, or of the slots of a position. A step takes less time than
  // one of the others, a call for channels more.
  static double stored_steps(const gemm_col2im::Geometry& geo, const ConvProblem& p) {
    constexpr double kStep = 0.6, kCall = 6;
    const gemm_col2im::Axis& last = geo.axis[geo.ndims - 1];
    double lines = static_cast<double>(geo.images) * static_cast<double>(p.oc);
    for (int a = 0; a + 1 < geo.ndims; ++a) lines *= static_cast<double>(geo.axis[a].slots * geo.axis[a].j_count);
    const auto slots = static_cast<double>(last.slots), j = static_cast<double>(last.j_count);
    const double vectors = 1 + static_cast<double>(last.dst_size) / 16;
    const double runs = geo.by_rows ? j * (1 + slots / 16) : slots * std::min(j, vectors);
    const auto calls = static_cast<double>(p.mb * p.oc) / static_cast<double>(geo.together(false));
    return kStep * lines * runs + kCall * calls;
  }

  // Steps for writing lines: rows of dst whose slots are interleaved; where they are not, or are short, lines of single
  // slots along an axis: the last one, or a longer one. Those across images take several times as long.
  double stored_lines(const gemm_col2im::Geometry& geo, const ConvProblem& p) const {
    constexpr int64_t kShort = 4;
    constexpr double kAcrossImages = 12, kLine = 2, kLineOfMany = 0.7;  // of many in one call
    const gemm_col2im::Axis& last = geo.axis[geo.ndims - 1];
    if (geo.interleaves(last) && last.j_count >= kShort) {
      double lines = static_cast<double>(geo.images) * static_cast<double>(p.oc);
      for (int a = 0; a < geo.line; ++a) lines *= static_cast<double>(geo.axis[a].dst_size);
      return (geo.writes_by_slots(geo.block_channels, size_of(sizes().dtype)) ? kLineOfMany : kLine) * lines;
    }
    int along = geo.ndims - 1;
    double numbers = static_cast<double>(geo.images) * static_cast<double>(p.oc) * static_cast<double>(geo.slots);
    for (int a = geo.ndims - 1; a >= 0; --a) {
      numbers *= static_cast<double>(geo.axis[a].j_count);
      if (geo.axis[a].j_count > geo.axis[along].j_count) along = a;
    }
    if (last.j_count >= kShort || geo.axis[along].j_count < kShort) along = geo.ndims - 1;
    // Without AVX-512 each row of a window that gaps surround is transposed and written by itself.
    constexpr double kRowOfWindow = 1.7;
    const bool in_runs = last.in_order() && last.slots >= gemm_col2im::kLeastInRun;
    if (!sizes().arch.avx512 && along == geo.ndims - 1 && last.has_gaps() && in_runs) {
      return kRowOfWindow * numbers / static_cast<double>(last.slots);
    }
    const bool across_images = along == 0 && geo.ndims > p.ndims;
    return kLine * (across_images ? kAcrossImages : 1) * numbers / static_cast<double>(geo.axis[along].j_count);
  }
};

}  // namespace

std::unique_ptr<Implementation> make_gemm_col2im(const Node& node) {
  if (node.op != kernels::Op::kConvTranspose) return nullptr;
  if (!gemm_col2im::takes(node.problem)) return nullptr;
  return std::make_unique<GemmCol2im>(node);
}

}  // namespace ortconv::implementations

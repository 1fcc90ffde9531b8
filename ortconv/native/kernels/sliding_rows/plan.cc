#include "kernels/sliding_rows/plan.h"

#include <algorithm>

#include "kernels/conv/geometry.h"
#include "kernels/fill.h"
#include "kernels/gemm/pieces.h"
#include "kernels/im2col/product.h"

namespace ortconv::kernels::sliding_rows {
namespace {

constexpr int64_t kBlockColumns = 1024;  // of dst, about, whose sums stay in L1

template <class T>
void pack(const Plan& plan, const ConvProblem& p, const T* wei, int64_t channel, Sum<T>* out) {
  const int last = p.ndims - 1;
  const im2col::Kernels<T> kernels(plan.arch);
  const T* in = wei + channel / plan.oc * plan.ic * p.wei_0 + channel % plan.oc * p.wei_1;
  out += channel * plan.weights_dst_channel();
  for (int64_t c = 0; c < plan.ic; ++c, in += p.wei_0) {
    for (int64_t tap = 0; tap < plan.outer_taps; ++tap, out += plan.pitch) {
      im2col::zero(out, plan.margin);
      kernels.load(in + offset_of(tap, p.ker, p.wei_x, last), p.wei_x[last], plan.ker, out + plan.margin);
      im2col::zero(out + plan.margin + plan.ker, plan.pitch - plan.margin - plan.ker);
    }
  }
}

// The steps at which a row of the sliding operand meets a row of dst, and by how many numbers on the average of these.
struct Meeting {
  double steps, length;
};

// From a few of the steps.
Meeting meeting_of(int64_t length, int64_t steps, int64_t shift, int64_t pad, int64_t columns) {
  constexpr int64_t kMost = 32;
  const int64_t count = std::min(steps, kMost);
  int64_t reached = 0, numbers = 0;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t at = (2 * i + 1) * steps / (2 * count) * shift - pad;
    const int64_t met = std::min(at + length, columns) - std::max<int64_t>(at, 0);
    if (met > 0) ++reached, numbers += met;
  }
  if (reached == 0) return {0, 0};
  return {static_cast<double>(steps * reached) / static_cast<double>(count),
          static_cast<double>(numbers) / static_cast<double>(reached)};
}

// The tiles that take the least time.
Tiling best_tiling(const TileKernel& kernel, int64_t lanes, int64_t most_rows, int64_t most_vectors,
                   bool shares_sliding, int64_t columns, const Meeting& meeting) {
  // In multiply-adds: a sum waits so long for the one before, a load that is not aligned, and a pair of rows.
  constexpr double kWait = 4, kLoad = 1.5, kPair = 5;
  const int64_t rows = ceil_div(most_rows, ceil_div(most_rows, kMostRows));
  Tiling best{rows, 1, 0, 0};
  const auto r = static_cast<double>(rows);
  for (int64_t vectors = 1; vectors <= std::min(most_vectors, kernel.most_vectors[rows]); ++vectors) {
    const auto v = static_cast<double>(vectors);
    const auto wide = static_cast<double>(vectors * lanes);
    const double tiles = static_cast<double>(ceil_div(columns, lanes)) / v;
    const double met = meeting.steps * std::min(tiles, (meeting.length + wide - 1) / wide);
    const double each = std::max({r * v, kWait, kLoad * (shares_sliding ? v + r : r * v + 1)});
    const double time = (met * each + std::min(tiles, met) * kPair) / r;
    if (vectors == 1 || time < best.time) best = {rows, vectors, met / tiles, time};
    if (wide >= static_cast<double>(columns)) break;
  }
  return best;
}

}  // namespace

bool takes(const ConvProblem& p, Operand sliding) {
  constexpr int64_t kMostShift = int64_t{1} << 31;  // so that a place beyond a row has an address
  const int last = p.ndims - 1;
  if (p.ic == 0 || p.oc == 0) return false;
  const bool src_slides = sliding == Operand::kSrc;
  const int64_t step = src_slides ? p.stride[last] : p.dilation[last];
  return step == 1 && (src_slides ? p.dilation[last] : p.stride[last]) < kMostShift;
}

Plan::Plan(Operand sliding, const ConvProblem& p, DataType dtype, const ArchFlags& arch)
    : sliding(sliding),
      dtype(dtype),
      arch(arch),
      kernel(get_tile_kernel(arch)),
      g(p.g),
      ic(p.ic / p.g),
      oc(p.oc / p.g),
      outer_taps(product_of(p.ker, p.ndims - 1)),
      ker(p.ker[p.ndims - 1]),
      margin(0) {
  lanes = dtype == DataType::kDouble ? kernel.lanes<double>() : kernel.lanes<float>();
  shift = sliding == Operand::kSrc ? p.dilation[p.ndims - 1] : p.stride[p.ndims - 1];
  pitch = ker;
  if (sliding == Operand::kWeights) {
    // Tiles as long as the rows at most, so that zeros are twice as many numbers at most.
    margin = lanes * std::min(kMostVectors, ceil_div(ker, lanes));
    pitch += 2 * margin;
  }
}

template <Operand kSliding>
PlanPtr make_plan(const ConvProblem& p, DataType dtype, const void* wei_const, const ArchFlags& arch) {
  auto plan = std::make_shared<Plan>(kSliding, p, dtype, arch);
  if (wei_const == nullptr) return plan;
  plan->packed = Buffer(static_cast<size_t>(plan->packed_size()) * sum_size_of(dtype));
  for (int64_t c = 0; c < p.oc; ++c) pack_weights(*plan, p, wei_const, c, plan->packed.as<void>());
  return plan;
}
template PlanPtr make_plan<Operand::kSrc>(const ConvProblem&, DataType, const void*, const ArchFlags&);
template PlanPtr make_plan<Operand::kWeights>(const ConvProblem&, DataType, const void*, const ArchFlags&);

void pack_weights(const Plan& plan, const ConvProblem& p, const void* wei, int64_t channel, void* packed) {
  with_float_type(plan.dtype, [&](auto zero) {
    using T = decltype(zero);
    pack(plan, p, static_cast<const T*>(wei), channel, static_cast<Sum<T>*>(packed));
  });
}

Geometry::Geometry(const Plan& plan, const ConvProblem& p) {
  const int last = p.ndims - 1;
  const bool src_slides = plan.sliding == Operand::kSrc;
  length = src_slides ? p.src_size[last] : plan.ker;
  steps = src_slides ? plan.ker : p.src_size[last];
  rows_are_images = p.mb > 1 && (!src_slides || plan.oc == 1);
  shares_sliding = rows_are_images != src_slides;
  row_count = rows_are_images ? p.mb : plan.oc;
  others = rows_are_images ? plan.oc : p.mb;
  const int64_t most_vectors = src_slides ? kMostVectors : plan.margin / plan.lanes;
  tiling = best_tiling(plan.kernel, plan.lanes, row_count, most_vectors, shares_sliding, p.dst_size[last],
                       meeting_of(length, steps, plan.shift, p.pad[last], p.dst_size[last]));
  row_tiles = ceil_div(row_count, tiling.rows);
  const int64_t tile = tiling.vectors * plan.lanes;
  columns = tile * std::min(std::max<int64_t>(1, kBlockColumns / tile), ceil_div(p.dst_size[last], tile));
  num_columns = ceil_div(p.dst_size[last], columns);
  dst_rows = product_of(p.dst_size, last);
  const int64_t taps = std::max<int64_t>(1, met_taps(p).most);
  const Pieces pieces = has_short_sums(p) ? pieces_of_short_sum(plan.ic) : pieces_of_sum(plan.ic, taps);
  piece = pieces.piece;
  channels_together = std::clamp<int64_t>(pieces.call / taps, 1, plan.ic);
  most_lines = 1;
  int64_t all_pairs = 0, all_begins = 0;
  for (int a = 0; a < last; ++a) {
    most_lines *= std::min(p.src_size[a], p.ker[a]);
    all_pairs += p.src_size[a] * p.ker[a];
    all_begins += p.dst_size[a] + 1;
  }
  src_margin = src_slides ? tile : 0;
  copies_src = src_margin > 0 || !src_is_dense(p);
  src_pitch = p.src_size[last] + 2 * src_margin;
  src_channel = product_of(p.src_size, last) * src_pitch;
  src_image = p.ic * src_channel;
  items = plan.g * others * row_tiles * dst_rows * num_columns;
  // Rows of src that are near in any case need not be read by all tiles one after the other. These would write a row of
  // each of many channels, which takes up to five times as long where dst is in no cache.
  constexpr double kFarDst = 8 << 20;  // bytes
  constexpr int64_t kNearSrc = 256 << 10;
  const int64_t src_bytes = plan.ic * src_channel * static_cast<int64_t>(sum_size_of(plan.dtype));
  rows_first = !src_slides || (dst_bytes(p, size_of(plan.dtype)) > kFarDst && src_bytes <= kNearSrc);
  with_float_type(plan.dtype, [&](auto zero) {
    using T = decltype(zero);
    using Cell = Sum<T>;
    direct = p.activation.is_identity() && p.dst_x[last] == 1 && channels_together == plan.ic;
    im2col::Parts shared, slice;
    packed = shared.add<Cell>(plan.packed.empty() ? plan.packed_size() : 0);
    src = shared.add<Cell>(copies_src || !std::is_same_v<T, Cell> ? p.mb * src_image : 0);
    pairs = shared.add<Line>(all_pairs);
    begins = shared.add<int64_t>(all_begins);
    slices = shared.bytes();
    lines = slice.add<Line>(last > 1 ? most_lines : 1);
    steps_of_tiles = slice.add<Steps>(columns / tile);
    sums = slice.add<Cell>(direct ? 0 : kMostRows * columns);
    partial = slice.add<Cell>(channels_together < plan.ic ? kMostRows * columns : 0);
    slice_bytes = slice.bytes();
  });
}

int64_t Geometry::num_slices(int threads) const { return std::min<int64_t>(std::max(threads, 1), items); }

}  // namespace ortconv::kernels::sliding_rows

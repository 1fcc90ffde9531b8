#include "kernels/gemm_col2im/geometry.h"

#include <algorithm>

#include "kernels/expand/steps.h"
#include "kernels/fill.h"
#include "kernels/im2col/product.h"

namespace ortconv::kernels::gemm_col2im {

Geometry::Geometry(const Plan& plan, const ConvProblem& p, int threads) : Items(plan, p, threads) {
  if (!in_steps || num_slabs > 1) channels_in_steps = 1;
  channels_in_steps = std::min(channels_in_steps, block_channels);
  size_tiles(plan, p);
  size_sums(plan);
  choose_prefetches(plan, p);
  with_float_type(plan.dtype, [&](auto zero) { lay_out_scratch<decltype(zero)>(plan); });
}

void Geometry::size_tiles(const Plan& plan, const ConvProblem& p) {
  constexpr int64_t kTileBytes = 256 << 10;  // of products of rows that read the same copy of some channels
  const int64_t pitch_bytes = im2col::pitch_of(tile_columns) * plan.cell_bytes();
  all_depth = dots || plan.ic * pitch_bytes <= kDeepTile;
  const int64_t most_rows = block_channels * plan.taps + panel_height;
  tile_rows = all_depth ? kLeastRows : kTileBytes / pitch_bytes;
  tile_rows = std::min(std::max(tile_rows / panel_height, int64_t{1}) * panel_height, most_rows);
  if (by_rows) tile_rows = most_rows;
  // The GEMM reads a strip from its beginning to its end, which is what caches are fast at.
  constexpr int64_t kLeastDepth = 32;
  in_strips = !wide && plan.ic >= kLeastDepth;
  copied_by_gemm = in_strips && plan.takes_strips && dense && p.src_c != 1 && (!narrow || plan.widens);
  strip = plan.arch.avx512 && plan.dtype != DataType::kDouble ? 2 * kGemmColumns : kGemmColumns;
  src_copy_size = (all_depth ? plan.ic : depth) * im2col::pitch_of(tile_columns);
  src_copies = 1;
  if (all_depth && num_blocks > 1) {
    constexpr int64_t kCopiesBytes = 2 << 20;  // of all copies
    src_copies = std::clamp<int64_t>(kCopiesBytes / (src_copy_size * plan.cell_bytes()), 1, kMostCopies);
    src_copies = std::min(src_copies, std::max<int64_t>(1, ceil_div(positions(), most_columns)));
  }
  constexpr int64_t kListBytes = 96 << 10, kShift = sizeof(int64_t), kRow = sizeof(Row), kManyTaps = 8;
  lists_taps_once = plan.taps <= kListBytes / (kRow + (vector_axis + 1) * kShift);
  has_one_tile = lists_taps_once && !direct && num_slabs == 1 && positions() > 0 && positions() <= most_columns;
  sums_parts = has_one_tile && may_sum_parts(plan, p);
  has_one_tile &= sums_parts || plan.taps >= kManyTaps;
  if (sums_parts) {
    // Whole channels, in whole panels where so many fit.
    constexpr int64_t kMostBytes = 64 << 10;
    const int64_t least = std::max<int64_t>(1, tile_rows / plan.taps);
    const int64_t most = std::max(least, kMostBytes / (plan.taps * pitch_bytes));
    int64_t channels = least;
    while (channels < most && channels * plan.taps % panel_height != 0) ++channels;
    tile_rows = std::min(channels, block_channels) * plan.taps;
  }
  transposed_pitch = im2col::pitch_of(tile_rows + panel_height);
}

// Whether sums are better formed vector by vector, each of all its parts, than products added row by row: these load
// and store each sum several times, and short rows wait for the one before. Where most vectors have no two parts
// nothing waits; and parts, unlike rows, are not read one after the other: they are to stay near L1.
bool Geometry::may_sum_parts(const Plan& plan, const ConvProblem& p) const {
  constexpr int64_t kMostBytes = 48 << 10, kMostParts = 1 << 14;
  if (plan.dtype == DataType::kDouble) return false;
  const int64_t row = axis[vector_axis].x_count * unit;
  int64_t parts = positions() / row * ceil_div(row, int64_t{kSumLanes});
  for (int a = 0; a < p.ndims; ++a) parts *= reaching_taps(p, a);
  return 4 * parts >= 5 * num_vectors() && parts <= kMostParts &&
         plan.taps * im2col::pitch_of(tile_columns) * plan.cell_bytes() <= kMostBytes;
}

void Geometry::size_sums(const Plan& plan) {
  if (by_rows) {
    zeros = slots, num_zeros = 0;
    slot_size = 1, channel_size = plan.taps, j_step = transposed_pitch;
    return;
  }
  slot_size = slab * inner_j;
  j_step = 1;
  if (direct && !wide) slot_size = align_up(slot_size, kGemmColumns);
  const Axis& last = axis[ndims - 1];
  zeros = slots * slot_size, num_zeros = 0;
  // The transpose kernel writes slots that are evenly spaced.
  if (!in_steps && last.has_gaps() && interleaves(last) && !(direct && wide) && last.j_count >= kLeastInterleaved) {
    num_zeros = ndims == 1 ? slab : last.j_count;
  }
  channel_size = zeros + num_zeros;
}

void Geometry::choose_prefetches(const Plan& plan, const ConvProblem& p) {
  const int64_t bytes = src_bytes(plan, p);
  far_weights = plan.packed_size() * plan.cell_bytes() > kNearWeights;
  near_src = bytes <= kNearSrc;
  constexpr int64_t kFarBytes = 4 << 20;
  constexpr int64_t kLongEnough = 2 * kLongRun / 3;  // tiles are whole rows, some of them a little shorter
  prefetches_src = bytes > kFarBytes && tile_columns >= kLongEnough;
  // The loads of a single panel alone keep a slow L3 busy.
  if (plan.arch.slow_l3) prefetches_src &= plan.rows() > plan.mr;
  // Wide panels of weights that are in no cache of the core, where enough positions are multiplied meanwhile.
  constexpr int64_t kFarWeights = 2 << 20;
  const auto panel_bytes = static_cast<int64_t>(plan.bytes_in(panel_height));  // of a number
  prefetches = plan.wide_rows() * plan.ic * panel_bytes > kFarWeights && positions() >= 2 * plan.mr;
}

template <class T>
void Geometry::lay_out_scratch(const Plan& plan) {
  using Cell = Sum<T>;
  const int64_t pitch = im2col::pitch_of(tile_columns);
  im2col::Parts shared, slice;
  widened = shared.add<Cell>(std::is_same_v<T, Cell> || narrow ? 0 : src_end);
  const int64_t weights = wide ? plan.wide_size() : plan.packed_size();
  packed = shared.add<char>(plan.packed.empty() ? weights * static_cast<int64_t>(plan.bytes_in(panel_height)) : 0);
  shared_products = shared.add<Cell>(shares_tiles ? shared_size(plan, *this) : 0);
  slices = shared.bytes();

  const int64_t listed = lists_taps_once ? plan.taps : tile_rows;
  segments = slice.add<Segment>(tile_columns);
  rows = slice.add<Row>(listed);
  shifts = slice.add<int64_t>(listed * (vector_axis + 1));
  src = slice.add<Cell>(reads_in_place ? 0 : src_copies * src_copy_size);
  products = slice.add<Cell>(direct ? 0 : tile_rows * pitch);
  // Steps that write several channels read on beyond the last one.
  const int64_t beyond = kExpandWidth + (channels_in_steps > 1 ? channel_size : 0);
  const int64_t transposed_size = wide ? tile_columns * transposed_pitch : 0;
  transposed = slice.add<Cell>(transposed_size + (by_rows ? beyond : 0));
  totals = slice.add<Cell>(!im2col::has_totals(plan.ic) ? 0 : wide ? transposed_size : tile_rows * pitch);
  sums = slice.add<Cell>(in_dst || by_rows ? 0 : block_channels * channel_size + beyond);
  rounded = slice.add<T>(std::is_same_v<T, Cell> || in_steps || in_dst ? 0 : block_channels * channel_size);
  bias = slice.add<Cell>(block_channels);
  gap = slice.add<Cell>(block_channels);
  repeated = slice.add<Cell>(std::max(kMostPhases, axis[ndims - 1].slots));
  const int64_t most_staged = writes_past_caches() ? kNearRows * kExpandWidth : num_staged;
  staged = slice.add<T>(most_staged + kCacheLine<T>);
  slice_bytes = slice.bytes();
}

}  // namespace ortconv::kernels::gemm_col2im

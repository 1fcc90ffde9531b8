// Dividing a run into work items: some channels and a slab of dst each.
#include <algorithm>
#include <limits>
#include <numeric>

#include "base/parallel.h"
#include "kernels/gemm_col2im/geometry.h"
#include "kernels/im2col/product.h"

namespace ortconv::kernels::gemm_col2im {
namespace {

constexpr int64_t kSumBytes = 256 << 10;  // of an item, so that they stay in L2, if one channel's do; or more:
constexpr int64_t kMostL2s = 8;           // so many times that, where each item reads much of src for few products
constexpr int64_t kReachesPerSlab = 4, kLeastReachesPerSlab = 2;  // what crosses its borders is multiplied twice

}  // namespace

void Geometry::count_items(const Plan& plan) {
  // Whole panels, and as many channels in each block as that permits.
  const int64_t granule = panel_height / std::gcd(panel_height, plan.taps);
  if (block_channels < granule) {
    block_channels = ceil_div(plan.oc, ceil_div(plan.oc, block_channels));
  } else if (block_channels < plan.oc) {
    block_channels = block_channels / granule * granule;
    block_channels = align_up(ceil_div(plan.oc, ceil_div(plan.oc, block_channels)), granule);
  }
  num_blocks = ceil_div(plan.oc, block_channels);
  num_slabs = ceil_div(axis[0].j_count, slab);
  slab = ceil_div(axis[0].j_count, num_slabs);
  num_slabs = ceil_div(axis[0].j_count, slab);
  items = images * plan.g * num_blocks * num_slabs;
}

// Of the products of all tiles of an item.
int64_t Geometry::shared_size(const Plan& plan) const {
  if (direct) return 0;
  const int64_t column_tiles = ceil_div(axis[0].x_count * inner_x, most_columns) + (num_slabs > 1 ? 1 : 0);
  return column_tiles * block_channels * plan.taps * im2col::pitch_of(tile_columns);
}

// Whether threads may share the tiles of an item: of one that takes long, nearly all of it for products, and whose
// products the scratch has room for.
bool Geometry::may_share_tiles(const Plan& plan) const {
  constexpr int64_t kLeastChannels = 64, kLeastProducts = 1 << 20, kMostShared = 1 << 22;
  const int64_t products = block_channels * plan.taps * axis[0].x_count * inner_x;
  return !dots && plan.ic >= kLeastChannels && !im2col::has_totals(plan.ic) && products * plan.ic >= kLeastProducts &&
         shared_size(plan) <= kMostShared;
}

// Positions of the first axis of dst that the products of a position of src go to.
int64_t Geometry::reach() const { return direct ? 1 : axis[0].shift_of(axis[0].ker - 1) - axis[0].shift_of(0) + 1; }

int64_t Geometry::least_slab(int64_t reaches) const {
  return reach() == 1 ? 1 : std::min(axis[0].j_count, reaches * reach());
}

// As many channels as fit with all positions, or with a few tiles where slabs have no positions in common; few channels
// and a slab; a slab and as many channels as fit.
void Geometry::size_items(const Plan& plan, int64_t least_channels) {
  const int64_t j_count = axis[0].j_count, row_bytes = slots * inner_j * plan.cell_bytes();
  const int64_t tiles = std::max<int64_t>(1, 2 * most_columns / std::max<int64_t>(1, inner_x));
  constexpr int64_t kSumsPerNumber = 4;  // sums beyond L2 that take as long as copying a number of src again
  const int64_t l2s = std::clamp<int64_t>(kSumsPerNumber * plan.ic / plan.rows(), 1, kMostL2s);
  const int64_t sum_bytes = in_dst ? std::numeric_limits<int64_t>::max() : l2s * kSumBytes;
  block_channels = std::clamp(sum_bytes / (row_bytes * (reach() == 1 ? std::min(tiles, j_count) : j_count)),
                              least_channels, plan.oc);
  int64_t least = least_slab(kReachesPerSlab);
  // Weights that L2 does not hold are read again for each slab. Of fewer positions than half of the channels, that
  // takes longer than adding to sums that L2 does not hold.
  constexpr int64_t kFarWeights = 1 << 20;
  if (block_channels * plan.taps * plan.ic * plan.cell_bytes() > kFarWeights) {
    least = std::max(least, std::min(j_count, ceil_div(plan.ic, 2 * std::max<int64_t>(1, inner_x))));
  }
  slab = std::clamp(sum_bytes / (row_bytes * block_channels), least, j_count);
  const int64_t fitting = std::max<int64_t>(1, sum_bytes / (row_bytes * slab));
  block_channels = std::min(block_channels, fitting);
  count_items(plan);
  shares_tiles = false;
}

// Whether threads take less time for reading all weights each, and one of them for all additions, than for reading or
// copying all of src each.
bool Geometry::has_few_rows(const Plan& plan) const {
  constexpr double kWeight = 0.2, kAddition = 0.8;  // numbers of src that take as long
  const auto positions = static_cast<double>(axis[0].x_count * inner_x), ic = static_cast<double>(plan.ic);
  return static_cast<double>(plan.rows()) * (kWeight * ic + kAddition * positions) < ic * positions;
}

// Enough items for the threads, of fewer channels and of lower slabs, but of some microseconds, and of positions that
// fill the tiles of the GEMM. But each item reads all of its weights, what crosses the border of a slab is multiplied
// twice, and there may be too few.
void Geometry::cut_items(const Plan& plan, int64_t least_channels, int threads) {
  // Weights that a single position is multiplied with are read for one product each.
  constexpr double kLeastProducts = 1 << 17, kLeastOfSingle = 1 << 15;
  const int64_t positions = axis[0].x_count * inner_x, parts = images * plan.g;
  const double least_products = positions == 1 ? kLeastOfSingle : kLeastProducts;
  const double products = static_cast<double>(images * positions) * static_cast<double>(plan.ic * plan.g) *
                          static_cast<double>(plan.rows());
  const auto wanted = static_cast<int64_t>(std::min(4.0 * threads, products / least_products));
  if (threads == 1 || items >= wanted) return;
  const Geometry whole = *this;
  const int64_t enough = std::min(threads, kFewThreads);
  constexpr double kBusy = 0.9;
  const auto is_even = [&](int64_t count) { return keep_busy(count, threads, kBusy); };
  const bool has_few = has_few_rows(plan);
  if (has_few && is_even(items)) return;
  const bool may_share = items < (has_few ? 2 : 1) * enough && may_share_tiles(plan);
  // Each item of fewer channels adds and stores its own sums, which threads that share one do not; the products of a
  // single position are hardly added.
  const int64_t blocks = parts * ceil_div(plan.oc, least_channels) * num_slabs;
  shares_tiles = may_share && (!is_even(blocks) || positions == 1) && block_channels * plan.taps > positions;
  if (shares_tiles) return;
  const bool reads_src_once = may_share && has_few;
  while (!reads_src_once && block_channels > least_channels &&
         parts * ceil_div(plan.oc, block_channels) * num_slabs < wanted) {
    block_channels = std::max(least_channels, ceil_div(block_channels, 2));
  }
  count_items(plan);
  const Geometry uncut = *this;
  const auto columns_of = [&](int64_t columns) { return wide ? columns : align_up(columns, kGemmColumns); };
  // What crosses borders is multiplied by all threads, and sums that these share are added by one: an addition takes as
  // long as some products. Where products go to dst, there is none.
  constexpr double kMostInVain = 0.15, kProducts = 40;
  const double most_in_vain =
      in_dst && reads_src_once ? 0 : std::min(kMostInVain, kProducts / static_cast<double>(plan.ic));
  const auto is_in_vain = [&] {
    const auto multiplied = static_cast<double>(num_slabs * columns_of((slab + reach() - 1) * inner_x));
    return num_slabs > whole.num_slabs && multiplied > (1 + most_in_vain) * static_cast<double>(positions);
  };
  // As many slabs as are wanted, or as few of them as threads, where less is multiplied in vain.
  for (int64_t slabs = wanted;; slabs = std::max<int64_t>(slabs / 2, threads)) {
    *this = uncut;
    cut_slabs(plan, ceil_div(slabs, parts * num_blocks));
    if (!may_share || slabs <= threads || !is_in_vain()) break;
  }
  // Of what a thread multiplies, with what crosses borders.
  const auto of_thread = [&](const Geometry& geo) {
    const int64_t columns = columns_of(std::min(axis[0].x_count, geo.slab + reach() - 1) * inner_x);
    return static_cast<double>(ceil_div(geo.items, threads) * geo.block_channels * columns);
  };
  constexpr double kLeastGain = 1.1;
  if (num_slabs > uncut.num_slabs && of_thread(uncut) < kLeastGain * of_thread(*this)) *this = uncut;
  // Few channels that do not make even blocks.
  Geometry slabs_alone = whole;
  slabs_alone.cut_slabs(plan, ceil_div(threads, parts * whole.num_blocks));
  if (kLeastGain * of_thread(slabs_alone) < of_thread(*this)) *this = slabs_alone;
  if (may_share && (items < enough || is_in_vain() || (reads_src_once && !is_even(items)))) {
    *this = whole;
    shares_tiles = true;
  }
}

// So many slabs, unless they are too low.
void Geometry::cut_slabs(const Plan& plan, int64_t wanted) {
  // Of a src that is read in place from beyond L2, short runs of its rows take as long as longer ones.
  constexpr int64_t kFarSrc = 1 << 20;
  const int64_t src_bytes = images * plan.g * plan.ic * axis[0].x_count * inner_x * plan.cell_bytes();
  const int64_t run = reads_in_place && src_bytes > kFarSrc ? kLongRun : 2 * kGemmColumns;
  const int64_t filling = ceil_div(wide ? plan.mr : run, std::max<int64_t>(1, inner_x));
  slab = std::min(slab, std::max({ceil_div(axis[0].j_count, wanted), least_slab(kLeastReachesPerSlab), filling}));
  count_items(plan);
}

void Geometry::divide(const Plan& plan, int threads) {
  const int64_t least_channels = std::min(ceil_div(kLeastRows, plan.taps), plan.oc);
  size_items(plan, least_channels);
  cut_items(plan, least_channels, threads);
}

// One range of columns for each thread that shares tiles, where each range of rows would read or copy src again; else,
// and where columns are too few for that, several ranges of rows for each.
void Geometry::choose_shared(const Plan& plan, int threads) {
  const int64_t positions = axis[0].x_count * inner_x, all_rows = block_channels * plan.taps;
  const int64_t least_columns = (wide ? 2 : 4) * kGemmColumns;
  const bool shares_columns = wide ? all_rows <= panel_height : has_few_rows(plan);
  shared_columns = most_columns;
  if (shares_columns) {
    shared_columns = std::max(least_columns, align_up(ceil_div(positions, int64_t{threads}), kGemmColumns));
  }
  const int64_t column_ranges = std::max<int64_t>(1, ceil_div(positions, shared_columns));
  const int64_t enough = (shares_columns ? 1 : 2) * threads;
  const int64_t row_ranges = column_ranges >= enough ? 1 : ceil_div(3 * threads, column_ranges);
  shared_rows = align_up(ceil_div(all_rows, row_ranges), panel_height);
}

}  // namespace ortconv::kernels::gemm_col2im

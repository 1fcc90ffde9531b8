#include "kernels/gemm_col2im/items.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/parallel.h"
#include "kernels/im2col/product.h"

namespace ortconv::kernels::gemm_col2im {
namespace {

constexpr int64_t kSumBytes = 256 << 10;  // of an item, so that they stay in L2, if one channel's do; or more:
constexpr int64_t kMostL2s = 8;           // so many times that, where each item reads much of src for few products
constexpr int64_t kReachesPerSlab = 4, kLeastReachesPerSlab = 2;  // what crosses its borders is multiplied twice
constexpr double kLeastGain = 1.1;                                // that a finer division is worth

// Channels of an item, at least.
int64_t least_channels(const Plan& plan) { return std::min(ceil_div(kLeastRows, plan.taps), plan.oc); }

}  // namespace

Items::Items(const Plan& plan, const ConvProblem& p, int threads) : Multiplication(plan, p), Division() {
  static_cast<Division&>(*this) = for_threads(plan, in_cache(plan), threads);
  choose_shared(plan, std::min(threads, kMostShare));
}

int64_t Items::num_slices(int threads) const {
  return std::min<int64_t>(std::max(threads, 1), shares_tiles ? kMostShare : items);
}

// Positions of the first axis of dst that the products of a position of src go to.
int64_t Items::reach() const { return direct ? 1 : axis[0].shift_of(axis[0].ker - 1) - axis[0].shift_of(0) + 1; }

int64_t Items::least_slab(int64_t reaches) const {
  return reach() == 1 ? 1 : std::min(axis[0].j_count, reaches * reach());
}

// Blocks of about so many channels, slabs of at most so many j.
Division Items::in_blocks_and_slabs(const Plan& plan, int64_t channels, int64_t slab) const {
  // Whole panels, and as many channels in each block as that permits.
  const int64_t granule = panel_height / std::gcd(panel_height, plan.taps);
  if (channels < granule) {
    channels = ceil_div(plan.oc, ceil_div(plan.oc, channels));
  } else if (channels < plan.oc) {
    channels = channels / granule * granule;
    channels = align_up(ceil_div(plan.oc, ceil_div(plan.oc, channels)), granule);
  }
  Division division;
  division.block_channels = channels;
  division.num_blocks = ceil_div(plan.oc, channels);
  division.slab = ceil_div(axis[0].j_count, ceil_div(axis[0].j_count, slab));
  division.num_slabs = ceil_div(axis[0].j_count, division.slab);
  division.items = images * plan.g * division.num_blocks * division.num_slabs;
  return division;
}

// Items whose sums stay in L2: as many channels as fit with all positions, or with a few tiles where slabs have no
// positions in common; few channels and a slab; a slab and as many channels as fit.
Division Items::in_cache(const Plan& plan) const {
  const int64_t j_count = axis[0].j_count, row_bytes = slots * inner_j * plan.cell_bytes();
  const int64_t tiles = std::max<int64_t>(1, 2 * most_columns / std::max<int64_t>(1, inner_x));
  constexpr int64_t kSumsPerNumber = 4;  // sums beyond L2 that take as long as copying a number of src again
  const int64_t l2s = std::clamp<int64_t>(kSumsPerNumber * plan.ic / plan.rows(), 1, kMostL2s);
  const int64_t sum_bytes = in_dst ? std::numeric_limits<int64_t>::max() : l2s * kSumBytes;
  const int64_t channels = std::clamp(sum_bytes / (row_bytes * (reach() == 1 ? std::min(tiles, j_count) : j_count)),
                                      least_channels(plan), plan.oc);
  int64_t least = least_slab(kReachesPerSlab);
  // Weights that L2 does not hold are read again for each slab. Of fewer positions than half of the channels, that
  // takes longer than adding to sums that L2 does not hold.
  constexpr int64_t kFarWeights = 1 << 20;
  if (channels * plan.taps * plan.ic * plan.cell_bytes() > kFarWeights) {
    least = std::max(least, std::min(j_count, ceil_div(plan.ic, 2 * std::max<int64_t>(1, inner_x))));
  }
  const int64_t slab = std::clamp(sum_bytes / (row_bytes * channels), least, j_count);
  const int64_t fitting = std::max<int64_t>(1, sum_bytes / (row_bytes * slab));
  return in_blocks_and_slabs(plan, std::min(channels, fitting), slab);
}

// Blocks of fewer channels, for so many items.
Division Items::in_more_blocks(const Plan& plan, const Division& from, int64_t wanted) const {
  const int64_t least = least_channels(plan), others = images * plan.g * from.num_slabs;
  int64_t channels = from.block_channels;
  while (channels > least && others * ceil_div(plan.oc, channels) < wanted) {
    channels = std::max(least, ceil_div(channels, 2));
  }
  return in_blocks_and_slabs(plan, channels, from.slab);
}

// Lower slabs, for so many items, unless they are too low.
Division Items::in_more_slabs(const Plan& plan, const Division& from, int64_t wanted) const {
  // Of a src that is read in place from beyond L2, short runs of its rows take as long as longer ones.
  constexpr int64_t kFarSrc = 1 << 20;
  const int64_t bytes = images * plan.g * plan.ic * positions() * plan.cell_bytes();
  const int64_t run = reads_in_place && bytes > kFarSrc ? kLongRun : 2 * kGemmColumns;
  const int64_t filling = ceil_div(wide ? plan.mr : run, std::max<int64_t>(1, inner_x));
  const int64_t slabs = ceil_div(wanted, images * plan.g * from.num_blocks);
  const int64_t low = std::max({ceil_div(axis[0].j_count, slabs), least_slab(kLeastReachesPerSlab), filling});
  return in_blocks_and_slabs(plan, from.block_channels, std::min(from.slab, low));
}

// Columns that an item multiplies, with what crosses its borders and what fills vectors.
int64_t Items::columns_multiplied(const Division& division) const {
  const int64_t columns = (division.slab + reach() - 1) * inner_x;
  return wide ? columns : align_up(columns, kGemmColumns);
}

double Items::work_of_thread(const Division& division, int threads) const {
  const int64_t all = wide ? positions() : align_up(positions(), kGemmColumns);
  return static_cast<double>(ceil_div(division.items, threads) * division.block_channels *
                             std::min(all, columns_multiplied(division)));
}

// Of the products of all tiles of an item.
int64_t Items::shared_size(const Plan& plan, const Division& division) const {
  if (direct) return 0;
  const int64_t column_tiles = ceil_div(positions(), most_columns) + (division.num_slabs > 1 ? 1 : 0);
  return column_tiles * division.block_channels * plan.taps * im2col::pitch_of(tile_columns);
}

// Whether threads may share the tiles of an item: of one that takes long, nearly all of it for products, and whose
// products the scratch has room for.
bool Items::may_share_tiles(const Plan& plan, const Division& division) const {
  constexpr int64_t kLeastChannels = 64, kLeastProducts = 1 << 20, kMostShared = 1 << 22;
  const int64_t products = division.block_channels * plan.taps * positions();
  return !dots && plan.ic >= kLeastChannels && !im2col::has_totals(plan.ic) && products * plan.ic >= kLeastProducts &&
         shared_size(plan, division) <= kMostShared;
}

// Whether threads take less time for reading all weights each, and one of them for all additions, than for reading or
// copying all of src each.
bool Items::has_few_rows(const Plan& plan) const {
  constexpr double kWeight = 0.2, kAddition = 0.8;  // numbers of src that take as long
  const auto columns = static_cast<double>(positions()), ic = static_cast<double>(plan.ic);
  return static_cast<double>(plan.rows()) * (kWeight * ic + kAddition * columns) < ic * columns;
}

// Enough items for the threads, of fewer channels and of lower slabs, but of some microseconds, and of positions that
// fill the tiles of the GEMM. But each item reads all of its weights, what crosses the border of a slab is multiplied
// twice, and there may be too few: then threads share the tiles of each of the whole items.
Division Items::for_threads(const Plan& plan, const Division& whole, int threads) const {
  // Weights that a single position is multiplied with are read for one product each.
  constexpr double kLeastProducts = 1 << 17, kLeastOfSingle = 1 << 15;
  const double least_products = positions() == 1 ? kLeastOfSingle : kLeastProducts;
  const double products = static_cast<double>(images * positions()) * static_cast<double>(plan.ic * plan.g) *
                          static_cast<double>(plan.rows());
  const auto wanted = static_cast<int64_t>(std::min(4.0 * threads, products / least_products));
  if (threads == 1 || whole.items >= wanted) return whole;
  constexpr double kBusy = 0.9;
  const auto is_even = [&](int64_t count) { return keep_busy(count, threads, kBusy); };
  const bool has_few = has_few_rows(plan);
  if (has_few && is_even(whole.items)) return whole;

  const int64_t enough = std::min(threads, kFewThreads);
  const bool may_share = whole.items < (has_few ? 2 : 1) * enough && may_share_tiles(plan, whole);
  Division shared = whole;
  shared.shares_tiles = true;
  // Each item of fewer channels adds and stores its own sums, which threads that share one do not; the products of a
  // single position are hardly added.
  const int64_t most_blocks = images * plan.g * ceil_div(plan.oc, least_channels(plan)) * whole.num_slabs;
  if (may_share && (!is_even(most_blocks) || positions() == 1) && whole.block_channels * plan.taps > positions()) {
    return shared;
  }
  const bool reads_src_once = may_share && has_few;
  const Division blocks = reads_src_once ? whole : in_more_blocks(plan, whole, wanted);
  // What crosses borders is multiplied by all threads, and sums that these share are added by one: an addition takes as
  // long as some products. Where products go to dst, there is none.
  constexpr double kMostInVain = 0.15, kProducts = 40;
  const double most_in_vain =
      in_dst && reads_src_once ? 0 : std::min(kMostInVain, kProducts / static_cast<double>(plan.ic));
  const auto is_in_vain = [&](const Division& division) {
    const auto multiplied = static_cast<double>(division.num_slabs * columns_multiplied(division));
    return division.num_slabs > whole.num_slabs && multiplied > (1 + most_in_vain) * static_cast<double>(positions());
  };
  // As many slabs as are wanted, or as few of them as threads, where less is multiplied in vain.
  int64_t slabs = wanted;
  Division best = in_more_slabs(plan, blocks, slabs);
  while (may_share && slabs > threads && is_in_vain(best)) {
    slabs = std::max<int64_t>(slabs / 2, threads);
    best = in_more_slabs(plan, blocks, slabs);
  }
  const auto work = [&](const Division& division) { return work_of_thread(division, threads); };
  if (best.num_slabs > blocks.num_slabs && work(blocks) < kLeastGain * work(best)) best = blocks;
  // Few channels that do not make even blocks.
  const Division slabs_alone = in_more_slabs(plan, whole, threads);
  if (kLeastGain * work(slabs_alone) < work(best)) best = slabs_alone;
  if (may_share && (best.items < enough || is_in_vain(best) || (reads_src_once && !is_even(best.items)))) return shared;
  return best;
}

// One range of columns for each thread that shares tiles, where each range of rows would read or copy src again; else,
// and where columns are too few for that, several ranges of rows for each.
void Items::choose_shared(const Plan& plan, int threads) {
  const int64_t all_rows = block_channels * plan.taps, least_columns = (wide ? 2 : 4) * kGemmColumns;
  const int64_t columns = std::max<int64_t>(1, positions());
  const bool shares_columns = wide ? all_rows <= panel_height : has_few_rows(plan);
  shared_columns = most_columns;
  if (shares_columns) {
    shared_columns = std::max(least_columns, align_up(ceil_div(columns, int64_t{threads}), kGemmColumns));
  }
  const int64_t column_ranges = ceil_div(columns, shared_columns);
  const int64_t enough = (shares_columns ? 1 : 2) * threads;
  const int64_t row_ranges = column_ranges >= enough ? 1 : ceil_div(3 * threads, column_ranges);
  shared_rows = align_up(ceil_div(all_rows, row_ranges), panel_height);
}

}  // namespace ortconv::kernels::gemm_col2im

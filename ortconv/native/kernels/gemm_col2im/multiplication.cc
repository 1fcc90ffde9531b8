#include "kernels/gemm_col2im/multiplication.h"

#include <algorithm>

#include "kernels/im2col/product.h"

namespace ortconv::kernels::gemm_col2im {
namespace {

constexpr int64_t kFloat = sizeof(float);
constexpr int64_t kColumns = 128;          // of a tile, about, of floats
constexpr int64_t kColumnsInPlace = 1024;  // of a tile of src that is read where it is: long runs of memory
constexpr int64_t kNearRuns = 1 << 20;     // bytes of src in L2 that are best read in long runs
constexpr int64_t kManyChannels = 1024;    // rows of more lie on more pages than the TLB has entries

// Whether the same columns of so many long rows, of some bytes each, evict each other from L1: lines that fall into few
// of its sets.
bool share_few_sets(int64_t row, int64_t count) {
  constexpr int64_t kLine = 64, kSets = 64, kWays = 8;
  if (row < kLine * kSets) return false;
  uint64_t sets = 0;
  for (int64_t i = 0; i < std::min(count, kSets); ++i) sets |= uint64_t{1} << (i * row / kLine % kSets);
  int64_t used = 0;
  for (; sets != 0; sets &= sets - 1) ++used;
  return count > 2 * kWays * used;
}

// Whether the GEMM better widens src for every panel again than copies it for the first one.
bool has_few_to_widen(const Plan& plan) {
  constexpr int64_t kFewOfAvx2 = 3;
  return plan.arch.avx512 ? has_few_panels(plan) : plan.rows() <= kFewOfAvx2 * plan.mr;
}

}  // namespace

Multiplication::Multiplication(const Plan& plan, const ConvProblem& p) : Writing(plan, p) {
  count_sums();
  if (im2col::has_totals(plan.ic)) direct = false;
  choose_columns(kColumns * kFloat / plan.cell_bytes());
  dots = prefers_dots(plan, p);
  wide = dots || prefers_wide(plan);
  choose_reading(plan, p);
  by_rows = takes_steps && sums_by_rows();
  in_steps |= by_rows;
  panel_height = dots ? 1 : wide ? wide_height(plan, p) : plan.height;
  tile_columns = std::min(most_columns, align_up(std::max<int64_t>(1, positions()), kGemmColumns));
  choose_depth(plan, p);
  in_dst = may_multiply_into_dst(plan, p);
}

void Multiplication::count_sums() {
  vector_axis = ndims - 1;
  inner_x = inner_j = slots = unit = 1;
  while (vector_axis > 0 && axis[vector_axis].is_plain()) unit *= axis[vector_axis--].x_count;
  direct = vector_axis == 0 && axis[0].is_plain();
  for (int a = 0; a < ndims; ++a) {
    slots *= axis[a].slots;
    if (a > 0) inner_x *= axis[a].x_count, inner_j *= axis[a].j_count;
  }
}

// Whole rows of positions where these fill vectors well, so that additions are not cut; else tiles of about equal size.
void Multiplication::choose_columns(int64_t usual) {
  constexpr int64_t kWaste = 32;  // of so many columns one is not used, at most
  const int64_t row = axis[vector_axis].x_count * unit, most = usual * 5 / 4;
  most_columns = usual;
  if (positions() == 0) return;
  most_columns = align_up(ceil_div(positions(), ceil_div(positions(), most)), kGemmColumns);
  if (direct || positions() <= most) return;
  int64_t least = usual;
  for (int64_t columns = row; 2 * columns <= 3 * usual; columns += row) {
    const int64_t whole = align_up(columns, kGemmColumns);
    if (2 * columns < usual || (whole - columns) * kWaste > whole || whole - columns > least) continue;
    least = whole - columns, most_columns = columns;
  }
}

// Whether single rows of weights are multiplied with single positions: for so few sums that a call of the GEMM would
// wait for them; more where they are long, most of a single position.
bool Multiplication::prefers_dots(const Plan& plan, const ConvProblem& p) const {
  constexpr int64_t kFewRows = 16, kFewDots = 64, kLongDots = 160, kDotsOfSingle = 512, kLong = 400;
  if (p.src_c != 1 || im2col::has_totals(plan.ic)) return false;
  const int64_t count = std::max<int64_t>(1, positions()), sums = plan.rows() * count;
  if (plan.ic < kLong) return plan.rows() <= kFewRows && sums <= kFewDots;
  return sums <= (count > 1 ? kLongDots : kDotsOfSingle);
}

// Whether src is better the A operand, whose rows are not whole vectors.
bool Multiplication::prefers_wide(const Plan& plan) const {
  const int64_t positions = this->positions(), rows = plan.rows();
  if (positions > most_columns) return false;
  // Products that take as long as transposing one of their sums; those of a single position are only copied.
  const int64_t transposed = positions == 1 ? 2 : 14;
  const int64_t usual = rows_of_calls(rows, plan.mr) * align_up(positions, kGemmColumns);
  // Weights as the B operand are read in shorter runs, which takes a fifth longer where they are far, or where calls
  // are short.
  constexpr int64_t kFewChannels = 128;
  const int64_t wide_products = rows_of_calls(positions, plan.mr) * align_up(rows, kGemmColumns);
  const bool waits =
      plan.packed_size() * plan.cell_bytes() > kNearWeights || (plan.ic <= kFewChannels && positions > kGemmColumns);
  return (usual - wide_products - (waits ? wide_products / 5 : 0)) * plan.ic > transposed * positions * rows;
}

int64_t Multiplication::wide_height(const Plan& plan, const ConvProblem& p) const {
  constexpr int64_t kFew = 3;          // positions
  constexpr int64_t kLongEnough = 12;  // channels
  const int64_t usual = im2col::panel_rows(plan.ic);
  if (positions() > kFew) {
    const bool is_one_vector = plan.arch.avx512 && plan.dtype != DataType::kDouble && usual == kGemmColumns;
    return is_one_vector ? kTwoVectors : usual;
  }
  // A panel that one call multiplies is read from its beginning to its end.
  if (usual > kHeightOfFew) return plan.ic >= kLongEnough ? kHeightOfFew : usual;
  // Low panels take longer, as a product waits for the one before, but those none of whose taps reaches dst are left
  // out: where others lie as close as the rows of a panel, hardly any.
  constexpr double kMostSkipped = 0.3;
  double share = 1, run = 1;
  int64_t inner = 1;
  for (int a = p.ndims - 1; a >= 0; --a) {
    const int64_t reaching = reaching_taps(p, a);
    share *= static_cast<double>(reaching) / static_cast<double>(p.ker[a]);
    run = std::max(run, static_cast<double>((p.ker[a] - reaching) * inner));
    inner *= p.ker[a];
  }
  const double skipped = (1 - share) * std::max(0.0, 1 - static_cast<double>(kGemmColumns) / run);
  return skipped < kMostSkipped ? kHeightOfFew : usual;
}

int64_t Multiplication::number_bytes(const Plan& plan) const {
  return narrow ? static_cast<int64_t>(size_of(plan.dtype)) : plan.cell_bytes();
}

// Whether src is read in place, and how many positions a tile has then.
void Multiplication::choose_reading(const Plan& plan, const ConvProblem& p) {
  // Numbers of 16 bits that are read in place are widened by the GEMM, or before.
  const bool has_16_bits = size_of(plan.dtype) < sizeof(float) && !wide;
  narrow = has_16_bits && plan.widens && !cuts_vectors(plan);
  reads_in_place = dots || (dense && (wide || pays_in_place(plan, p)));
  // For many panels, src of 16 bits is better widened once, unless it has so few channels that a copy takes as long.
  constexpr int64_t kFewWidened = 64;
  if (narrow) reads_in_place &= has_few_to_widen(plan) || plan.ic < kFewWidened;
  if (!reads_in_place) narrow = has_16_bits;
  // Short rows of many images are widened before they are copied, all together.
  constexpr int64_t kShortRow = 8;
  const bool has_images = ndims > p.ndims;
  if (!reads_in_place && has_images && p.src_c > 1 && p.src_c <= kShortRow) narrow = false;
  if (!wide) reads_in_place ? choose_columns_in_place(plan) : choose_columns_of_copy(plan);
}

// Whether many loads of the GEMM are of a part of a vector, for every panel again. With elements of 16 bits they take
// long in AVX2.
bool Multiplication::cuts_vectors(const Plan& plan) const {
  constexpr int64_t kVector = 8, kMany = 256;
  return !plan.arch.avx512 && !has_few_to_widen(plan) && positions() % kVector != 0 && positions() < kMany;
}

// Where the GEMM makes the copy, this takes little of the time, and wider tiles are cut into fewer runs.
void Multiplication::choose_columns_of_copy(const Plan& plan) {
  constexpr int64_t kLeast = kColumns * 3 / 2, kMost = kColumns * 2;
  const int64_t near = kNearSrc / (plan.ic * kFloat);
  if (plan.takes_strips && dense) choose_columns(std::clamp(near, kLeast, kMost) * kFloat / plan.cell_bytes());
}

void Multiplication::choose_columns_in_place(const Plan& plan) {
  const int64_t number = number_bytes(plan);
  // A tile of several panels is read as often, and is to stay in L2.
  const int64_t near_bytes = plan.arch.slow_l3 ? kNearRuns : kNearSrc;
  int64_t near = near_bytes / (plan.ic * number);
  // Long runs of many channels, of a few at a time.
  constexpr int64_t kNearProducts = 64 << 10;
  if (plan.ic >= kManyChannels) near = std::max(near, kNearProducts / (plan.rows() * plan.cell_bytes()));
  const int64_t most = kColumnsInPlace * kFloat / plan.cell_bytes();
  near = std::clamp(near / kGemmColumns * kGemmColumns, most / 8, most);
  choose_columns(plan.rows() <= plan.mr ? most : near);
}

// Whether reading a src that is the B operand in place takes less time than copying it.
bool Multiplication::pays_in_place(const Plan& plan, const ConvProblem& p) const {
  const int64_t bytes = src_bytes(plan, p);
  // Vectors of rows that are shorter than one lie across cache lines: for many panels such rows are copied.
  const bool pays = plan.arch.avx512 ? positions() >= kGemmColumns || has_few_panels(plan)
                                     : pays_without_prefetch(plan, src_row_bytes(plan, p), bytes);
  if (!pays || !plan.arch.slow_l3) return pays;
  // Reading src from a slow L3 once for each panel takes longer than copying it, unless it has few channels; so does
  // reading its rows from L2 for many panels.
  constexpr int64_t kSlowBytes = 1 << 20, kManyPanels = 64, kFewChannels = 64;
  if (bytes <= kSlowBytes) return plan.ic < kFewChannels || plan.rows() <= kManyPanels * plan.mr;
  constexpr int64_t kPanels = 6, kPanelsOfFar = 3, kFar = 3 << 20;
  // A far src is copied for fewer panels, but one of many channels, whose short runs a copy reads as slowly.
  const bool copied_early = bytes > kFar && plan.ic > kFewChannels && plan.ic < kManyChannels;
  return plan.rows() <= (copied_early ? kPanelsOfFar : kPanels) * plan.mr;
}

// Whether a GEMM that does not fetch the next columns of rows of src, of so many bytes, better reads them in place. For
// many rows of weights a copy pays where src has many channels, which is where it fills L1, or few positions: its rows
// are near each other and aligned. So it does where rows evict each other before the second panel reads them, and for
// some panels where src is far.
bool Multiplication::pays_without_prefetch(const Plan& plan, int64_t row, int64_t bytes) const {
  constexpr int64_t kPage = 4096, kLine = 64, kApart = 32, kNear = 256 << 10, kFarthest = 3 << 20;
  constexpr int64_t kPanels = 8, kPanelsOfFar = 5, kPanelsOfFarthest = 2;
  constexpr int64_t kFewChannels = 128, kManyPositions = 64, kFewChannelsOfFar = 64, kLongDepth = 512;
  const int64_t beyond_page = row % kPage;
  const bool pages_apart = row > kLine && std::min(beyond_page, kPage - beyond_page) < kApart;
  if (plan.rows() > plan.mr && (pages_apart || share_few_sets(row, plan.ic))) return false;
  int64_t panels = kPanels;
  if (plan.ic * row <= kNear) {  // what a group multiplies of an image
    if (plan.ic <= kFewChannels && positions() >= kManyPositions) return true;
  } else if (plan.ic >= kManyChannels) {
    if (positions() >= kColumnsInPlace) panels = kPanelsOfFar;
  } else if (plan.ic > kFewChannelsOfFar) {
    const bool is_farthest = plan.ic >= kLongDepth || (bytes > kFarthest && plan.ic > kFewChannels);
    panels = is_farthest ? kPanelsOfFarthest : kPanelsOfFar;
  }
  return plan.rows() <= panels * plan.mr;
}

// Whether products are sums of dst that lie there as in src. Not where most of a row is what does not fill whole
// vectors, which is copied.
bool Multiplication::may_multiply_into_dst(const Plan& plan, const ConvProblem& p) const {
  constexpr int64_t kLeastPositions = 3 * kGemmColumns;
  if (!direct || wide || slots > 1 || positions() < kLeastPositions) return false;
  if (size_of(plan.dtype) < sizeof(float)) {  // whole sums only can be rounded
    if (plan.rounding == Rounding::kNone || depth < plan.ic || !p.activation.is_identity()) return false;
  }
  int64_t dst_step = 1;
  for (int a = ndims - 1; a >= 0; --a) {
    if (axis[a].stride > 1 || (axis[a].dst_x != dst_step && axis[a].dst_size > 1)) return false;
    dst_step *= axis[a].dst_size;
  }
  return true;
}

// Whether the sums of a position lie in rows, from which the steps take runs of some length.
bool Multiplication::sums_by_rows() const {
  constexpr int64_t kShortRun = 4;
  if (!wide || !direct || positions() > most_columns) return false;
  int64_t j = 1;
  for (int a = first_in_steps; a < ndims; ++a) j *= axis[a].j_count;
  const Axis& last = axis[ndims - 1];
  return j == 1 || (last.in_order() && last.slots >= kShortRun);
}

void Multiplication::choose_depth(const Plan& plan, const ConvProblem& p) {
  // Long calls, as each loads and stores its sums, where they read strips. Else what they read is to stay in L1 for the
  // next call; and what is added to totals is as long as in im2col.
  constexpr int64_t kMostDepth = 1024;
  const bool long_calls = !wide && !reads_in_place && !has_few_panels(plan) && !im2col::has_totals(plan.ic);
  // Where src is read in place from beyond L2, a few rows at a time: more are no faster, fewer make the error larger.
  constexpr int64_t kDepthInPlace = 64, kShallow = 40;
  const bool few = reads_in_place && !wide && plan.ic > kShallow &&
                   plan.ic * product_of(p.src_size, p.ndims) * plan.cell_bytes() > kDeepTile;
  // Many positions of src as the A operand lie in so many cache lines that those of fewer channels stay in L1, which
  // AVX2 has no time to read again.
  constexpr int64_t kDepthOfWide = 128, kManyWide = 32;
  const bool many = wide && positions() > kManyWide && !plan.arch.avx512;
  const int64_t most = long_calls ? kMostDepth : few ? kDepthInPlace : many ? kDepthOfWide : im2col::kMostDepth;
  depth = even_piece(plan.ic, most);
  const bool short_sums = has_short_sums(p);
  if (short_sums) depth = std::min(depth, pieces_of_short_sum(plan.ic).call);
  piece = short_sums ? best_piece(depth) : piece_of_channels(plan.ic, depth);
}

}  // namespace ortconv::kernels::gemm_col2im

#include "kernels/gemm_col2im/geometry.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/parallel.h"
#include "kernels/expand/steps.h"
#include "kernels/fill.h"
#include "kernels/im2col/product.h"

namespace ortconv::kernels::gemm_col2im {
namespace {

// Of products of rows that read the same copy of some channels: more where copying takes longer, from a slow L3.
constexpr int64_t kTileBytes = 128 << 10, kTileBytesOfSlow = 256 << 10;
constexpr int64_t kColumns = 128;          // of a tile, about, of floats
constexpr int64_t kColumnsInPlace = 1024;  // of a tile of src that is read where it is: long runs of memory
constexpr int64_t kFewPanels = 4;          // of rows: so few that a copy of src does not pay in any case
// Bytes of src that stay in L2 while several panels are multiplied with them, and as many as are best in long runs.
constexpr int64_t kNearSrc = 256 << 10, kNearRuns = 1 << 20;
constexpr int64_t kNearWeights = 1 << 20;  // bytes, which stay in L2
constexpr int64_t kDeepTile = 640 << 10;   // of all channels of a tile of src, which stay in L2 while weights pass
constexpr int64_t kCopiesBytes = 2 << 20;  // of all copies of tiles of src

int64_t modulo(int64_t a, int64_t b) { return a - floor_div(a, b) * b; }

// The inverse of a modulo n, which have no common divisor.
int64_t inverse_of(int64_t a, int64_t n) {
  int64_t r = n, next = modulo(a, n), t = 0, next_t = 1;
  while (next != 0) {
    const int64_t quotient = r / next;
    std::swap(r -= quotient * next, next);
    std::swap(t -= quotient * next_t, next_t);
  }
  return modulo(t, n);
}

void complete(Axis* a) {
  // Any stride does for a single position: one by which every tap is a residue of its own.
  if (a->src_size == 1) a->stride = align_up(a->dst_size, a->dilation);
  a->step = std::gcd(a->stride, a->dilation);
  a->period = a->stride / a->step;
  a->offset = a->pad % a->stride;
  a->inverse = inverse_of(a->dilation / a->step, a->period);
  const int64_t residues = ceil_div(std::min(a->stride, a->dst_size), a->step);
  a->slots = std::min({a->ker, a->period, residues});
  a->by_tap = a->slots == a->ker && a->ker < a->period;
  a->j_count = ceil_div(a->dst_size, a->stride);
  const int64_t reach = (a->ker - 1) * a->dilation;
  a->x_begin = std::max<int64_t>(0, ceil_div(a->pad - reach, a->stride));
  a->x_count = std::min(a->src_size, floor_div(a->pad + a->dst_size - 1, a->stride) + 1) - a->x_begin;
  a->x_count = std::max<int64_t>(0, a->x_count);
}

// Whether every sum of the axis is of one tap and one position.
bool is_plain(const Axis& a) {
  if (a.by_position) return true;
  const int64_t q = a.shift_of(0);
  const bool every_slot = a.slots == a.ker && (a.by_tap || a.period == a.ker);
  return every_slot && a.shift_of(a.ker - 1) == q && a.x_begin + q == 0 && a.x_count == a.j_count;
}

// Whether every tap has a slot, and no two of them reach the same position of dst from any position.
bool is_disjoint(const Axis& a) { return a.slots == a.ker && (a.ker - 1) * a.dilation < a.stride; }

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

// Whether images share tiles: small ones, whose positions would not fill the vectors of a call, which are two. But
// where each is read in place, as for few rows, empty columns take less time than a copy.
bool share_tiles(const Plan& plan, const ConvProblem& p) {
  constexpr int64_t kCopied = 36;                              // products that take as long as copying a number
  const int64_t small = plan.arch.avx512 ? kGemmColumns : 12;  // positions; vectors of 8 are two there
  const int64_t positions = product_of(p.src_size, p.ndims);
  if (p.mb == 1 || positions > small) return false;
  if (plan.rows() > kFewPanels * plan.mr) return true;
  const int64_t columns = align_up(p.mb * positions, kGemmColumns);
  return plan.rows() * (p.mb * kGemmColumns - columns) > kCopied * p.mb * positions;
}

}  // namespace

int64_t Axis::dst_of(int64_t j) const {
  if (!by_position) return std::min(j * stride, dst_size);
  if (j == j_count) return dst_size;
  return j == 0 ? 0 : (x_begin + j) * stride - pad;
}

int64_t Axis::slot_of(int64_t residue) const {
  int64_t reached = residue + offset;
  if (reached >= stride) reached -= stride;
  if (dilation == 1 && by_tap) return reached < slots ? reached : -1;
  if (reached % step != 0) return -1;
  if (!by_tap) return residue / step;
  const int64_t tap = reached / step * inverse % period;
  return tap < slots ? tap : -1;
}

int64_t Axis::residue_of(int64_t slot) const {
  return by_tap ? modulo(slot * dilation - pad, stride) : slot * step + modulo(-pad, step);
}

void Geometry::set_axes(const Plan& plan, const ConvProblem& p) {
  ndims = 0;
  images = p.mb;
  if (share_tiles(plan, p)) {
    images = 1;
    Axis& batch = axis[ndims++];
    batch = {};
    batch.ker = batch.stride = batch.dilation = 1;
    batch.src_size = batch.dst_size = p.mb, batch.src_x = p.src_n, batch.dst_x = p.dst_n;
  }
  for (int a = 0; a < p.ndims; ++a) {
    Axis& next = axis[ndims++];
    next = {};
    next.ker = p.ker[a], next.stride = p.stride[a], next.dilation = p.dilation[a], next.pad = p.pad[a];
    next.src_size = p.src_size[a], next.dst_size = p.dst_size[a], next.src_x = p.src_x[a], next.dst_x = p.dst_x[a];
  }
  src_end = (images - 1) * p.src_n + (p.ic - 1) * p.src_c + 1;
  dense = true;
  int64_t step = 1;
  double all = 1, needed = 1;
  for (int a = ndims - 1; a >= 0; --a) {
    Axis& x = axis[a];
    complete(&x);
    src_end += (x.src_size - 1) * x.src_x;
    dense &= x.src_x == step || x.src_size == 1;
    step *= x.src_size;
    if (a > 0) all *= static_cast<double>(x.src_size), needed *= static_cast<double>(x.x_count);
  }
  // Positions that reach nothing are multiplied as well where they are few.
  constexpr double kLeastShare = 0.75;
  if (needed < kLeastShare * all) dense = false;
  for (int a = 1; a < ndims && dense; ++a) axis[a].x_begin = 0, axis[a].x_count = axis[a].src_size;

  // With vectors of 8, a few slots take less time when they are written one by one than interleaved with zeros.
  most_phases_in_gaps = plan.arch.avx512 || axis[ndims - 1].slots >= kLeastInRun ? 8 : 4;
  takes_steps = measure_dst(p);
  lies_far = kernels::lies_far(p, size_of(plan.dtype));
  gaps_lie_far = kernels::gaps_lie_far(p, size_of(plan.dtype));
  find_lines();
  stages_lines = should_stage_lines(p, size_of(plan.dtype));
  // At least as many j as a vector holds: for each, a number of every slot is read, and with it a cache line.
  const int64_t vector = plan.arch.avx512 ? 16 : 8;
  num_staged = stages_lines ? std::max(kStaged, vector * axis[line].stride * line_unit) : 0;
  constexpr int64_t kFewSlots = 8;
  in_steps = takes_steps && (prefers_steps(plan.arch) || (gaps_lie_far && axis[ndims - 1].slots <= kFewSlots));
  if (in_steps) crop(plan);
  has_gaps = std::any_of(axis, axis + ndims, [](const Axis& a) { return a.has_gaps() || a.by_position; });
  vector_axis = ndims - 1;
  inner_x = inner_j = slots = unit = 1;
  while (vector_axis > 0 && is_plain(axis[vector_axis])) unit *= axis[vector_axis--].x_count;
  direct = vector_axis == 0 && is_plain(axis[0]);
  for (int a = 0; a < ndims; ++a) {
    slots *= axis[a].slots;
    if (a > 0) inner_x *= axis[a].x_count, inner_j *= axis[a].j_count;
  }
}

// Whole rows of positions where these fill vectors well, so that additions are not cut; else tiles of about equal size.
void Geometry::choose_columns(int64_t usual) {
  constexpr int64_t kWaste = 32;  // of so many columns one is not used, at most
  const int64_t row = axis[vector_axis].x_count * unit, positions = axis[0].x_count * inner_x, most = usual * 5 / 4;
  most_columns = usual;
  if (positions == 0) return;
  most_columns = align_up(ceil_div(positions, ceil_div(positions, most)), kGemmColumns);
  if (direct || positions <= most) return;
  int64_t least = usual;
  for (int64_t columns = row; 2 * columns <= 3 * usual; columns += row) {
    const int64_t whole = align_up(columns, kGemmColumns);
    if (2 * columns < usual || (whole - columns) * kWaste > whole || whole - columns > least) continue;
    least = whole - columns, most_columns = columns;
  }
}

// Whether src is better the A operand, whose rows are not whole vectors.
bool Geometry::prefers_wide(const Plan& plan) const {
  const int64_t positions = axis[0].x_count * inner_x, rows = plan.rows();
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

int64_t Geometry::wide_height(const Plan& plan, const ConvProblem& p) const {
  constexpr int64_t kFew = 3;          // positions
  constexpr int64_t kLongEnough = 12;  // channels
  const int64_t usual = im2col::panel_rows(plan.ic);
  if (axis[0].x_count * inner_x > kFew) {
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

// Whether rows of src, of so many bytes, are read in place by a GEMM that does not fetch their next columns. For many
// rows of weights a copy pays where src has many channels, which is where it fills L1, or few positions: its rows are
// near each other and aligned. So it does where rows evict each other before the third panel reads them. Many short
// rows of a far src are fetched ahead only where they are read one after the other, for a copy.
bool Geometry::is_read_in_place(const Plan& plan, int64_t row, int64_t bytes) const {
  constexpr int64_t kPage = 4096, kLine = 64, kApart = 32, kFar = 4 << 20, kFarthest = 8 << 20, kShortRow = 2048,
                    kManyRows = 96;
  constexpr int64_t kPanels = 8, kFewChannels = 128, kManyPositions = 64;
  const int64_t beyond_page = row % kPage;
  const bool pages_apart = row > kLine && std::min(beyond_page, kPage - beyond_page) < kApart;
  if (plan.rows() > 2 * plan.mr && pages_apart) return false;
  if (plan.rows() > 2 * kPanels * plan.mr && share_few_sets(row, plan.ic)) return false;
  if (plan.ic <= kFewChannels && axis[0].x_count * inner_x >= kManyPositions) return true;
  const bool scattered = row < kShortRow && plan.ic > kManyRows;
  const int64_t panels = !scattered || bytes <= kFar ? kPanels : bytes <= kFarthest ? 2 : 1;
  return plan.rows() <= panels * plan.mr;
}

void Geometry::choose_depth(const Plan& plan, const ConvProblem& p) {
  // Long calls, as each loads and stores its sums, where they read strips. Else what they read is to stay in L1 for the
  // next call; and what is added to totals is as long as in im2col.
  constexpr int64_t kMostDepth = 1024;
  const bool in_strips = !wide && !reads_in_place && plan.rows() > kFewPanels * plan.mr && !im2col::has_totals(plan.ic);
  // Where src is read in place from beyond L2, a few rows at a time: more are no faster, fewer make the error larger.
  constexpr int64_t kDepthInPlace = 64, kShallow = 40;
  const bool few = reads_in_place && !wide && plan.ic > kShallow &&
                   plan.ic * product_of(p.src_size, p.ndims) * plan.cell_bytes() > kDeepTile;
  depth = even_piece(plan.ic, in_strips ? kMostDepth : few ? kDepthInPlace : im2col::kMostDepth);
  const bool short_sums = has_short_sums(p);
  if (short_sums) depth = std::min(depth, pieces_of_short_sum(plan.ic).call);
  piece = short_sums ? best_piece(depth) : piece_of_channels(plan.ic, depth);
}

Geometry::Geometry(const Plan& plan, const ConvProblem& p, int threads) {
  set_axes(plan, p);
  const bool totals_too = im2col::has_totals(plan.ic);
  if (totals_too) direct = false;
  constexpr int64_t kFloat = sizeof(float);
  choose_columns(kColumns * kFloat / plan.cell_bytes());
  // So few sums that a call of the GEMM would wait for them; more where they are long, most of a single position.
  constexpr int64_t kFewRows = 16, kFewDots = 64, kLongDots = 160, kDotsOfSingle = 512, kLong = 400;
  const int64_t positions = std::max<int64_t>(1, axis[0].x_count * inner_x);
  const bool is_long = plan.ic >= kLong;
  dots = p.src_c == 1 && !totals_too && (plan.rows() <= kFewRows || is_long) &&
         plan.rows() * positions <= (!is_long        ? kFewDots
                                     : positions > 1 ? kLongDots
                                                     : kDotsOfSingle);
  wide = dots || prefers_wide(plan);
  narrow = size_of(plan.dtype) < sizeof(float) && !wide;
  const int64_t number = narrow ? static_cast<int64_t>(size_of(plan.dtype)) : plan.cell_bytes();
  const int64_t row = p.src_c * number, bytes = p.mb * p.ic * row;
  constexpr int64_t kFarBytes = 4 << 20, kSlowBytes = 1 << 20;
  // Vectors of rows that are shorter than one lie across cache lines: for many panels such rows are copied.
  const bool few_panels = plan.rows() <= kFewPanels * plan.mr;
  bool in_place = plan.arch.avx512 ? positions >= kGemmColumns || few_panels : is_read_in_place(plan, row, bytes);
  // Reading src from a slow L3 once for each panel takes longer than copying it, unless it has few channels.
  if (plan.arch.slow_l3 && bytes > kSlowBytes) {
    constexpr int64_t kPanels = 6, kPanelsOfFar = 3, kFewChannels = 64, kFar = 3 << 20;
    const bool is_far = bytes > kFar && plan.ic > kFewChannels;
    in_place &= plan.rows() <= (is_far ? kPanelsOfFar : kPanels) * plan.mr;
  }
  reads_in_place = dots || (dense && (wide || in_place));
  // For many panels, src of 16 bits is better widened once, unless it has so few channels that a copy takes as long.
  constexpr int64_t kFewWidened = 64;
  if (narrow) reads_in_place &= plan.widens && (few_panels || plan.ic < kFewWidened);
  // Short rows of many images are widened before they are copied, all together.
  constexpr int64_t kShortRow = 8;
  const bool has_images = ndims > p.ndims;
  if (!reads_in_place && has_images && p.src_c > 1 && p.src_c <= kShortRow) narrow = false;
  if (reads_in_place && !wide) {
    // A tile of several panels is read as often, and is to stay in L2.
    const int64_t near_bytes = plan.arch.slow_l3 ? kNearRuns : kNearSrc;
    int64_t near = near_bytes / (plan.ic * number);
    // Rows of more channels than the TLB has entries lie on as many pages: long runs, of a few channels at a time.
    constexpr int64_t kManyChannels = 1024, kNearProducts = 64 << 10;
    if (plan.ic >= kManyChannels) near = std::max(near, kNearProducts / (plan.rows() * plan.cell_bytes()));
    const int64_t most = kColumnsInPlace * kFloat / plan.cell_bytes();
    near = std::clamp(near / kGemmColumns * kGemmColumns, most / 8, most);
    choose_columns(plan.rows() <= plan.mr ? most : near);
  }
  // Not where most of a row is what does not fill whole vectors, which is copied.
  constexpr int64_t kLeastPositions = 3 * kGemmColumns;
  in_dst = direct && !wide && slots == 1 && axis[0].x_count * inner_x >= kLeastPositions &&
           plan.dtype != DataType::kFloat16 && plan.dtype != DataType::kBfloat16;
  int64_t dst_step = 1;
  for (int a = ndims - 1; a >= 0; --a) {
    in_dst &= axis[a].stride == 1 && (axis[a].dst_x == dst_step || axis[a].dst_size == 1);
    dst_step *= axis[a].dst_size;
  }
  by_rows = takes_steps && sums_by_rows();
  in_steps |= by_rows;
  panel_height = dots ? 1 : wide ? wide_height(plan, p) : plan.height;
  tile_columns = std::min(most_columns, align_up(positions, kGemmColumns));
  choose_depth(plan, p);
  divide(plan, threads);
  with_float_type(plan.dtype, [&](auto zero) {
    using T = decltype(zero);
    using Cell = Sum<T>;
    constexpr int64_t kCell = sizeof(Cell);
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
    const int64_t pitch = im2col::pitch_of(tile_columns), all_rows = block_channels * plan.taps;
    all_depth = dots || plan.ic * pitch * kCell <= kDeepTile;
    const int64_t tile_bytes = plan.arch.slow_l3 ? kTileBytesOfSlow : kTileBytes;
    tile_rows = all_depth ? kLeastRows : tile_bytes / (pitch * kCell);
    tile_rows = std::min(std::max(tile_rows / panel_height, int64_t{1}) * panel_height, all_rows + panel_height);
    // The GEMM reads a strip from its beginning to its end, which is what caches are fast at.
    constexpr int64_t kLeastDepth = 32;
    in_strips = !wide && plan.ic >= kLeastDepth;
    strip = plan.arch.avx512 && kCell == sizeof(float) ? 2 * kGemmColumns : kGemmColumns;

    im2col::Parts shared, slice;
    widened = shared.add<Cell>(std::is_same_v<T, Cell> || narrow ? 0 : src_end);
    const auto number_bytes = static_cast<int64_t>(plan.bytes_in(panel_height));  // of packed weights
    packed = shared.add<char>(!plan.packed.empty() ? 0 : (wide ? plan.wide_size() : plan.packed_size()) * number_bytes);
    shared_products = shared.add<Cell>(shares_tiles ? shared_size(plan) : 0);
    choose_shared(plan, std::min(threads, kMostShare));
    segments = slice.add<Segment>(tile_columns);
    constexpr int64_t kListBytes = 96 << 10, kShift = sizeof(int64_t), kRow = sizeof(Row);
    lists_taps_once = plan.taps <= kListBytes / (kRow + (vector_axis + 1) * kShift);
    constexpr int64_t kManyTaps = 8;
    has_one_tile = lists_taps_once && !direct && plan.taps >= kManyTaps && num_slabs == 1 &&
                   positions <= most_columns && axis[0].x_count * inner_x > 0;
    rows = slice.add<Row>(lists_taps_once ? plan.taps : tile_rows);
    shifts = slice.add<int64_t>((lists_taps_once ? plan.taps : tile_rows) * (vector_axis + 1));
    src_copy_size = (all_depth ? plan.ic : depth) * pitch;
    src_copies = 1;
    if (all_depth && num_blocks > 1) {
      src_copies = std::clamp<int64_t>(kCopiesBytes / (src_copy_size * kCell), 1, kMostCopies);
      src_copies = std::min(src_copies, std::max<int64_t>(1, ceil_div(positions, most_columns)));
    }
    src = slice.add<Cell>(reads_in_place ? 0 : src_copies * src_copy_size);
    products = slice.add<Cell>(direct ? 0 : tile_rows * pitch);
    // Of weights that are in no cache of the core, where enough positions are multiplied meanwhile.
    constexpr int64_t kFarWeights = 2 << 20;
    far_weights = plan.packed_size() * kCell > kNearWeights;
    near_src = bytes <= kNearSrc;
    constexpr int64_t kLongEnough = 2 * kLongRun / 3;  // tiles are whole rows, some of them a little shorter
    prefetches_src = bytes > kFarBytes && tile_columns >= kLongEnough;
    // The loads of a single panel alone keep a slow L3 busy.
    if (plan.arch.slow_l3) prefetches_src &= plan.rows() > plan.mr;
    prefetches = plan.wide_rows() * plan.ic * number_bytes > kFarWeights && positions >= 2 * plan.mr;
    if (!in_steps || num_slabs > 1) channels_in_steps = 1;
    channels_in_steps = std::min(channels_in_steps, block_channels);
    if (by_rows) tile_rows = all_rows + panel_height;
    transposed_pitch = im2col::pitch_of(tile_rows + panel_height);
    if (by_rows) slot_size = 1, channel_size = plan.taps, j_step = transposed_pitch;
    // Steps that write several channels read on beyond the last one.
    const int64_t beyond = kExpandWidth + (channels_in_steps > 1 ? channel_size : 0);
    const int64_t transposed_size = wide ? tile_columns * transposed_pitch : 0;
    transposed = slice.add<Cell>(transposed_size + (by_rows ? beyond : 0));
    totals = slice.add<Cell>(!totals_too ? 0 : wide ? transposed_size : tile_rows * pitch);
    sums = slice.add<Cell>(in_dst || by_rows ? 0 : block_channels * channel_size + beyond);
    rounded = slice.add<T>(std::is_same_v<T, Cell> || in_steps ? 0 : block_channels * channel_size);
    bias = slice.add<Cell>(block_channels);
    gap = slice.add<Cell>(block_channels);
    repeated = slice.add<Cell>(std::max(kMostPhases, last.slots));
    const int64_t most_staged = writes_past_caches() ? kNearRows * kExpandWidth : num_staged;
    staged = slice.add<T>(most_staged + kCacheLine<T>);
    slices = shared.bytes(), slice_bytes = slice.bytes();
  });
}

// Whether channels of dst can be written in steps: the numbers of one lie next to each other, of each image.
bool Geometry::measure_dst(const ConvProblem& p) {
  constexpr int64_t kMostNumbers = 1 << 20, kTogether = 4096;
  inner_dst = 1;
  for (first_in_steps = ndims - 1;; --first_in_steps) {
    const Axis& x = axis[first_in_steps];
    if (x.dst_x != inner_dst && x.dst_size > 1) {
      if (first_in_steps > 0 || ndims == 1 || x.stride > 1) return false;
      first_in_steps = 1;
      inner_dst /= axis[1].dst_size;
      break;
    }
    if (first_in_steps == 0) break;
    inner_dst *= x.dst_size;
  }
  const int64_t numbers = inner_dst * axis[first_in_steps].dst_size;
  channels_in_steps = p.dst_c == numbers ? std::max<int64_t>(1, kTogether / std::max<int64_t>(1, numbers)) : 1;
  return numbers <= kMostNumbers && (p.dst_c != 1 || numbers == 1);
}

void Geometry::find_lines() {
  line = ndims - 1, line_unit = 1;
  while (line > 0 && axis[line].stride == 1 && axis[line].dst_x == line_unit) line_unit *= axis[line--].dst_size;
  if (axis[line].dst_x != line_unit && line_unit > 1) line = ndims - 1, line_unit = 1;
}

// Whether lines are put together in a cache and then written past the caches: long ones, of a dst that is too large for
// the caches. A line with gaps would be written twice, so that it pays for a smaller dst too.
bool Geometry::should_stage_lines(const ConvProblem& p, size_t element_bytes) const {
  constexpr double kFarWithGaps = 16 << 20;
  constexpr int64_t kShortLine = 1536;   // bytes
  constexpr int64_t kMostStride = 4096;  // numbers: as many as are put together then stay in L2
  const Axis& along = axis[line];
  if (along.dst_x != line_unit || along.stride * line_unit > kMostStride) return false;
  if (along.dst_size * line_unit * static_cast<int64_t>(element_bytes) < kShortLine) return false;
  return lies_far || (axis[ndims - 1].has_gaps() && !is_mostly_gaps(p, element_bytes) &&
                      dst_bytes(p, element_bytes) > kFarWithGaps);
}

bool Geometry::has_long_lines(size_t element_bytes) const {
  constexpr int64_t kLongLine = 4 << 10;  // bytes
  return axis[line].dst_size * line_unit * static_cast<int64_t>(element_bytes) > kLongLine;
}

// Where lines are short, more than channels, and stay in the caches until their neighbours are written.
bool Geometry::writes_by_slots(int64_t channels, size_t element_bytes) const {
  constexpr int64_t kNear = 4 << 20;  // bytes
  if (line == 0 || axis[line].has_gaps() || has_long_lines(element_bytes)) return false;
  const Axis& outer = axis[line - 1];
  if (outer.dst_size < channels * outer.stride) return false;
  int64_t bytes = line_unit * static_cast<int64_t>(element_bytes);
  for (int a = 0; a <= line; ++a) bytes *= axis[a].dst_size;
  return bytes <= kNear;
}

// Whether that is best: where channels are not those of interleaved slots in long lines.
bool Geometry::prefers_steps(const ArchFlags& arch) const {
  constexpr int64_t kFewSlots = 4, kFewInterleaved = 16, kFewPhases = 4;
  const Axis& last = axis[ndims - 1];
  if (last.slots > kMostPhases) return false;
  const bool crops = !is_plain(last) && is_disjoint(last);
  const bool in_runs = last.in_order() && last.slots >= kLeastInRun;
  const bool sparse = 2 * last.slots <= last.stride && last.stride > most_phases_in_gaps && !in_runs;
  // Steps of vectors of 16 take less time for pairs and gaps, those of 8 for wide gaps only.
  const bool quick = arch.avx512 ? last.slots == 2 || last.has_gaps() : last.has_gaps() && last.stride > kFewPhases;
  const int64_t few = quick && last.slots <= kFewSlots ? kFewInterleaved : kLeastInterleaved;
  // Sums among gaps take less time when they are written one by one, from so many positions on. Those that crop() has
  // be products do only where the gaps are shorter than a vector.
  constexpr int64_t kManyCropped = 128;
  const bool one_by_one = sparse && last.stride <= kExpandWidth && last.j_count >= kManyCropped;
  const bool any = (last.slots == 1 && !sparse) || (crops && last.slots <= kFewSlots && !one_by_one);
  const int64_t few_sparse = last.slots < kLeastInRun || stages_lines ? 6 : 256;
  if (!any && last.j_count >= (sparse ? few_sparse : few)) return false;
  return std::any_of(axis, axis + ndims, [](const Axis& a) { return a.stride > 1; });
}

// Whether the sums of a position lie in rows, from which the steps take runs of some length.
bool Geometry::sums_by_rows() const {
  constexpr int64_t kShortRun = 4;
  if (!wide || !direct || axis[0].x_count * inner_x > most_columns) return false;
  int64_t j = 1;
  for (int a = first_in_steps; a < ndims; ++a) j *= axis[a].j_count;
  const Axis& last = axis[ndims - 1];
  return j == 1 || (last.in_order() && last.slots >= kShortRun);
}

// Has the sums of disjoint taps be their products, wherever these fall.
void Geometry::crop(const Plan& plan) {
  if (first_in_steps > 0 && !is_plain(axis[0])) return;
  const auto can = [](const Axis& a) { return is_plain(a) || (is_disjoint(a) && a.x_count > 0); };
  if (im2col::has_totals(plan.ic) || !std::all_of(axis, axis + ndims, can)) return;
  for (int a = 0; a < ndims; ++a) {
    Axis& x = axis[a];
    if (is_plain(x)) continue;
    x.by_position = x.by_tap = true;
    x.j_count = x.x_count;
  }
}

int64_t Geometry::num_slices(int threads) const {
  return std::min<int64_t>(std::max(threads, 1), shares_tiles ? kMostShare : items);
}

}  // namespace ortconv::kernels::gemm_col2im

#include "kernels/conv/geometry.h"

#include <algorithm>
#include <numeric>

#include "base/math.h"
#include "base/parallel.h"
#include "kernels/conv/stages.h"
#include "kernels/gemm/pieces.h"

namespace ortconv::kernels {
namespace {

constexpr int64_t kGridBytes = 640 << 10;       // copy of src, meant to stay in L2
constexpr int64_t kPartsGridBytes = 960 << 10;  // likewise, of numbers in parts
constexpr int64_t kWeightBytes = 512 << 10;     // packed weights of one work item, likewise
constexpr int64_t kTileBytes = 24 << 10;        // sums of one tile, meant to stay in L1
// Tiles of few rows are computed so fast that more columns pay.
constexpr int64_t kFewRows = 12, kMaxColumnsOfFewRows = 1024;
// A larger dst is written past the caches: it would evict what is still needed.
constexpr int64_t kStreamBytes = 1 << 20;
// Fewest positions of a block: with fewer, reading the weights again costs more than a copy of src in L2 gains. And
// where blocks of channels alone keep the threads busy for less than a share of the time.
constexpr int64_t kMinPositions = 256, kMinPositionsOfThreads = 64;
constexpr double kBusy = 0.87;
// Bytes of the copy of a block of so few positions, if it is to be read from L2, because L3 is slow.
constexpr int64_t kMostGridBytes = 1 << 20;
constexpr int64_t kMaxOverrun = 4;  // how many times kGridBytes the copy may take to have them
// Cost of copying a row of src into a plane, in units of one product and sum: per row and per element.
constexpr int64_t kRowCost = 160, kCopyCost = 20;

// Taps k and k + period of a forward convolution have the same residue.
int64_t residue_period(const AxisPlan& axis) { return axis.stride / std::gcd(axis.stride, axis.dilation); }

AxisFrame place_axis(Op op, const AxisPlan& axis, bool merged, int64_t dst_size, int64_t pad) {
  AxisFrame frame{};
  frame.merged = merged;
  if (op == Op::kConv) {
    frame.positions = dst_size;
    frame.shift_min = floor_div(-pad, axis.stride);
    frame.shift_max = floor_div((axis.ker - 1) * axis.dilation - pad, axis.stride);
    frame.num_planes = std::min(axis.ker, residue_period(axis));
    return frame;
  }
  frame.first = floor_div(pad, axis.stride);
  if (merged) {
    frame.base = frame.first * axis.stride - pad;
    frame.positions = floor_div(dst_size - 1 + pad, axis.stride) - frame.first + 1;
  } else {
    frame.positions = ceil_div(dst_size, axis.stride);
  }
  frame.num_planes = 1;
  bool any = false;
  for (const AxisGroup& group : axis.groups) {
    if (group.num_taps() == 0) continue;
    for (size_t i = 0; i < group.classes.size(); ++i) {
      const int64_t shift = shift_of(axis, frame, pad, group.classes[i]);
      const int64_t high = shift - group.taps[i].front() * axis.dilation / axis.stride;
      const int64_t low = shift - group.taps[i].back() * axis.dilation / axis.stride;
      frame.shift_min = any ? std::min(frame.shift_min, low) : low;
      frame.shift_max = any ? std::max(frame.shift_max, high) : high;
      any = true;
    }
  }
  return frame;
}

void make_planar(Op op, const AxisPlan& axis, AxisFrame& frame, int64_t pad) {
  frame.planar = true;
  frame.num_planes = 0;
  if (op == Op::kConv) {
    frame.num_planes = axis.ker;
    return;
  }
  for (const AxisGroup& group : axis.groups) {
    for (size_t i = 0; i < group.classes.size(); ++i) {
      for (const int64_t k : group.taps[i]) {
        const int64_t shift = shift_of(axis, frame, pad, group.classes[i]) - k * axis.dilation / axis.stride;
        int64_t* end = frame.plane_shift + frame.num_planes;
        if (std::find(frame.plane_shift, end, shift) == end) frame.plane_shift[frame.num_planes++] = shift;
      }
    }
  }
}

int64_t halo_of(const AxisFrame& frame) { return frame.planar ? 0 : frame.shift_max - frame.shift_min; }

// Cells of the grid along an axis whose positions are all in one block. Rows are laid end to end, so the zeros after
// the end of one row also serve as the zeros before the next one.
int64_t whole_grid(Op op, const AxisFrame& f, int64_t src_size) {
  const int64_t most = f.positions + halo_of(f);
  if (op == Op::kConv || f.planar) return most;
  return std::clamp(std::max(f.positions + f.shift_max, src_size - f.shift_min), f.positions, most);
}

// A block takes single positions of the axes before `axis`, `block` positions of `axis`, and all of the axes after it.
struct Cut {
  int axis;
  int64_t block;  // 0: none found
};

// The first axis on which a block of at least `least` positions has a copy of at most `limit` cells per channel. The
// block is larger than that only up to `most` positions whose copy has at most `budget` cells.
Cut find_cut(const AxisFrame* axis, int last, int64_t planes, int64_t least, int64_t most, int64_t budget,
             int64_t limit) {
  for (int a = 0; a <= last; ++a) {
    int64_t slab = planes, slab_positions = 1;  // of one position of this axis
    for (int i = 0; i <= last; ++i) {
      if (i < a) slab *= 1 + halo_of(axis[i]);
      if (i > a) slab *= axis[i].positions + halo_of(axis[i]);
      if (i > a) slab_positions *= axis[i].positions;
    }
    const int64_t enough = ceil_div(least, slab_positions);
    const int64_t block = std::max(std::min(budget / slab - halo_of(axis[a]), ceil_div(most, slab_positions)), enough);
    if (enough <= axis[a].positions && (enough + halo_of(axis[a])) * slab <= limit) {
      return {a, std::min(block, axis[a].positions)};
    }
  }
  return {last, 0};
}

// The taps that a position meets may all lie next to each other, and so in one piece, if that has room for as many as
// without the zeros around src there would be.
int64_t piece_of(const Plan& plan, const ConvProblem& p) {
  if (plan.op != Op::kConvTranspose || plan.element_bytes < sizeof(float)) return plan.piece;
  const MetTaps met = met_taps(p);
  if (plan.parts != nullptr) return std::min(plan.piece, parts_piece_length(plan.ic, met.most));
  const int64_t piece = met.all ? plan.piece : std::min(plan.piece, piece_length(plan.ic, met.most));
  return has_short_sums(p) ? std::min(piece, best_piece(plan.ic * met.most)) : piece;
}

}  // namespace

MetTaps met_taps(const ConvProblem& p) {
  MetTaps met{1, true};
  for (int a = 0; a < p.ndims; ++a) {
    const MostTaps taps = most_taps(p, a);
    met.most *= taps.met;
    met.all &= taps.met == taps.of_phase;
  }
  return met;
}

Store store_of(size_t element_bytes, const ConvProblem& problem, int64_t most_cached) {
  const int last = problem.ndims - 1;
  const int64_t row_bytes = problem.dst_size[last] * static_cast<int64_t>(element_bytes);
  if (problem.dst_x[last] != 1 || row_bytes % 64 != 0) return Store::kCached;
  int64_t dst_bytes = problem.mb * problem.oc * row_bytes;
  for (int a = 0; a < last; ++a) dst_bytes *= problem.dst_size[a];
  return dst_bytes > most_cached ? Store::kStream : Store::kCached;
}

bool may_read_in_place(const Plan& plan) {
  if (plan.parts != nullptr) return false;
  return plan.num_taps == 1 || (plan.merged && plan.oc * plan.num_classes <= plan.mr);
}

bool lies_in_src(const AxisPlan& axis, const AxisFrame& frame, int64_t begin, int64_t count, int64_t src_size,
                 int64_t src_x) {
  const int64_t low = begin + frame.shift_min, high = begin + count + frame.shift_max;
  if (axis.src_step != 1 || frame.planar || frame.num_planes > 1 || low < 0 || high > src_size) return false;
  return high - low <= 1 || frame.grid_stride == src_x;
}

int64_t phase_of(const AxisPlan& axis, const AxisFrame& frame, int64_t pad, int64_t r) {
  if (axis.dst_step == 1) return 0;
  if (frame.merged) return r;
  return r - pad - floor_div(r - pad, axis.stride) * axis.stride;
}

int64_t shift_of(const AxisPlan& axis, const AxisFrame& frame, int64_t pad, int64_t r) {
  return frame.merged ? frame.first : ceil_div(pad - r, axis.stride);
}

TapPlace place_tap(Op op, const AxisPlan& axis, const AxisFrame& frame, int64_t pad, int64_t r, int64_t k) {
  if (op == Op::kConv) {
    if (frame.planar) return {k, 0};
    return {k % residue_period(axis), floor_div(k * axis.dilation - pad, axis.stride) - frame.shift_min};
  }
  const int64_t shift = shift_of(axis, frame, pad, r) - k * axis.dilation / axis.stride;
  if (!frame.planar) return {0, shift - frame.shift_min};
  return {std::find(frame.plane_shift, frame.plane_shift + frame.num_planes, shift) - frame.plane_shift, 0};
}

int64_t plane_origin(Op op, const AxisPlan& axis, const AxisFrame& frame, int64_t pad, int64_t plane) {
  if (op == Op::kConvTranspose) return frame.planar ? frame.plane_shift[plane] : frame.shift_min;
  const int64_t first = plane * axis.dilation - pad;
  if (frame.planar) return first;
  return first - floor_div(first, axis.stride) * axis.stride + frame.shift_min * axis.stride;
}

Geometry::Geometry(const Plan& plan, const ConvProblem& problem, int threads) {
  const int last = plan.ndims - 1;
  int64_t all_positions = problem.mb;
  for (int a = 0; a <= last; ++a) {
    axis[a] = place_axis(plan.op, plan.axis[a], plan.merged, problem.dst_size[a], problem.pad[a]);
    all_positions *= axis[a].positions;
  }
  if (all_positions == 0) return;
  piece = piece_of(plan, problem);

  const auto cell_bytes = static_cast<int64_t>(plan.cell_bytes);
  const bool in_parts = plan.parts != nullptr;
  const int64_t grid_bytes = in_parts ? kPartsGridBytes : kGridBytes;
  const int64_t padded_ic = in_parts ? align_up(plan.ic, kPartChannels) : plan.ic;
  const int64_t operand_bytes = in_parts ? plan.num_parts * static_cast<int64_t>(sizeof(uint16_t)) : cell_bytes;

  // Planar or halo, from the last axis outwards; the first axis wastes nothing unless images are laid end to end.
  // Work per position and src channel is what the waste is a fraction of.
  const int64_t work = plan.oc * plan.num_taps;
  int64_t planes = 1;
  for (int a = 0; a <= last; ++a) planes *= axis[a].num_planes;
  for (int a = last; a >= 0; --a) {
    AxisFrame& f = axis[a];
    f.block = f.positions;
    const int64_t halo = whole_grid(plan.op, f, problem.src_size[a]) - f.positions;
    const bool wastes = a > 0 || (problem.mb > 1 && f.positions <= 64);
    if (!wastes || halo == 0 || plan.axis[a].ker > kMaxPlanarTaps) continue;
    AxisFrame planar = f;
    make_planar(plan.op, plan.axis[a], planar, problem.pad[a]);
    const int64_t planes_then = planes / f.num_planes * planar.num_planes;
    const int64_t least_bytes = padded_ic * planes_then * std::min(all_positions, kMinPositions) * operand_bytes;
    const int64_t cost = (planes_then - planes) * (kRowCost + kCopyCost * axis[last].positions);
    // Waste and cost of one row, or of as many elements of an outer axis.
    if (halo * work * axis[last].positions > cost * f.positions && least_bytes <= grid_bytes) {
      f = planar;
      planes = planes_then;
    }
  }

  // Blocks of positions, no more than a thread's share: whole images while they fit, else ranges of the first axis
  // whose slabs fit.
  const int64_t budget = std::max<int64_t>(1, grid_bytes / operand_bytes / std::max<int64_t>(padded_ic, 1));
  int64_t min_positions = kMinPositions;
  if (plan.slow_l3 && !in_parts && padded_ic > 0) {
    const int64_t near = kMostGridBytes / (padded_ic * planes * operand_bytes);
    min_positions = std::clamp(near, kMinPositionsOfThreads, kMinPositions);
  }
  const int64_t few_threads = std::min(threads, kFewThreads);
  const int64_t least = keep_busy(plan.g * plan.num_blocks, few_threads, kBusy)
                            ? min_positions
                            : std::clamp(ceil_div(all_positions, few_threads), kMinPositionsOfThreads, min_positions);
  const int64_t most = std::max(ceil_div(all_positions, int64_t{threads}), least);
  int64_t image = planes, image_positions = 1;
  for (int a = 0; a <= last; ++a) {
    image *= axis[a].positions + halo_of(axis[a]);
    image_positions *= axis[a].positions;
  }
  batch_block = 1;
  if ((image <= budget && image_positions <= most) || image_positions <= least) {
    const int64_t enough = std::min(ceil_div(least, image_positions), kMaxOverrun * budget / image);
    const int64_t fitting = std::min(budget / image, most / image_positions);
    batch_block = std::clamp<int64_t>(std::max(fitting, enough), 1, problem.mb);
  } else {
    Cut cut = find_cut(axis, last, planes, least, most, budget, budget);
    if (cut.block == 0) cut = find_cut(axis, last, planes, least, most, budget, kMaxOverrun * budget);
    if (cut.block == 0) cut = {last, std::min(least, axis[last].positions)};
    for (int a = 0; a <= cut.axis; ++a) axis[a].block = a < cut.axis ? 1 : cut.block;
  }
  num_batch_blocks = ceil_div(problem.mb, batch_block);
  batch_block = ceil_div(problem.mb, num_batch_blocks);
  int64_t stride = 1, num_position_blocks = num_batch_blocks, shared = 0;
  for (int a = last; a >= 0; --a) {
    AxisFrame& f = axis[a];
    f.num_blocks = ceil_div(f.positions, f.block);
    f.block = ceil_div(f.positions, f.num_blocks);
    f.grid = f.num_blocks > 1 ? f.block + halo_of(f) : whole_grid(plan.op, f, problem.src_size[a]);
    shared += (f.block + halo_of(f) - f.grid) * stride;
    f.grid_stride = stride;
    stride *= f.grid;
    num_position_blocks *= f.num_blocks;
  }
  outer_planes = 1;
  for (int a = 0; a < last; ++a) outer_planes *= axis[a].num_planes;
  image_rows = stride / axis[last].grid;
  // Whole cache lines, so that where rows are whole lines every plane is read aligned.
  plane_size = batch_block * stride + shared;
  if (planes > 1) plane_size = (plane_size + kCopyOverrun + 15) / 16 * 16;
  // An odd number of cache lines spreads the rows of B over the sets of L1.
  channel_stride = (planes * plane_size + kCopyOverrun + 15) / 16 * 16;
  if (channel_stride % 32 == 0) channel_stride += 16;

  part_stride = planes * plane_size * kPartChannels;

  store = store_of(plan.element_bytes, problem, kStreamBytes);

  // Tiles: wide, since long runs of dst are cheaper to write, but their sums should stay in L1.
  const int64_t unit_rows = plan.units.front().num_classes;
  // Of the largest block, as they begin at multiples of the granule.
  const int64_t even_oc = plan.num_blocks == 0 ? 0 : ceil_div(plan.oc, plan.num_blocks);
  const int64_t block_oc = std::min(plan.oc, align_up(even_oc, plan.row_granule));
  const int64_t block_rows = std::max<int64_t>(1, block_oc * unit_rows);
  columns = std::clamp<int64_t>(kTileBytes / cell_bytes / block_rows / 32 * 32, 32,
                                block_rows <= kFewRows ? kMaxColumnsOfFewRows : kMaxColumns);
  columns = std::min(columns, align_up(batch_block * stride, 32));
  const int64_t most_blocks = std::max<int64_t>(plan.num_blocks, 1);
  blocks_per_tile = std::clamp<int64_t>(kTileBytes / cell_bytes / columns / block_rows, 1, most_blocks);

  const int64_t block_weights = std::max<int64_t>(1, block_oc * padded_ic * plan.num_taps * operand_bytes);
  blocks_per_item = std::clamp<int64_t>(kWeightBytes / block_weights, 1, most_blocks);
  // Enough items to balance, unless blocks of positions do; their order keeps the copy of src across the items of a
  // block.
  const int64_t wanted = keep_busy(plan.g * num_position_blocks, threads, kBusy) ? 1 : 4 * threads;
  while (blocks_per_item > 1 && plan.g * num_position_blocks * ceil_div(plan.num_blocks, blocks_per_item) < wanted) {
    blocks_per_item = ceil_div(blocks_per_item, 2);
  }
  items_per_block = ceil_div(plan.num_blocks, blocks_per_item);
  num_items = plan.g * num_position_blocks * items_per_block;

  const int64_t tile_rows = blocks_per_tile * block_rows;
  const int64_t lines = kLines * line_capacity(plan.axis[last], axis[last]);
  const int64_t sources = outer_planes * batch_block * image_rows;
  const int64_t cells =
      in_parts ? padded_ic * planes * plane_size + kGridSlack * kPartChannels : plan.ic * channel_stride + kGridSlack;
  slice_tile = align64(cells * operand_bytes);
  slice_rows = slice_tile + align64(tile_rows * columns * cell_bytes);
  slice_segments = slice_rows + align64(plan.axis[last].dst_step * static_cast<int64_t>(sizeof(void*)));
  slice_sources = slice_segments + align64((columns / axis[last].grid + 2) * static_cast<int64_t>(sizeof(Segment)));
  slice_lines = slice_sources + align64(sources * 8);
  slice_size = slice_lines + align64(lines * cell_bytes);
  tap_offsets = 0;
  phases = align64(plan.num_taps * 8);
  int64_t num_phases = 0;
  for (int a = 0; a <= last; ++a) num_phases += plan.axis[a].dst_step;
  bias = phases + align64(num_phases * 8);
  largest = bias + align64(problem.oc * cell_bytes);
  packed = largest + 64;
  slices = packed + (plan.packed.empty() ? align64(plan.packed_size() * cell_bytes) : 0);
  total = slices + static_cast<size_t>(threads) * slice_size;
}

}  // namespace ortconv::kernels

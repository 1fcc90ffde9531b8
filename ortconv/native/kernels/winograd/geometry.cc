#include "kernels/winograd/geometry.h"

#include <algorithm>

#include "base/math.h"
#include "kernels/conv/geometry.h"
#include "kernels/winograd/stages.h"

namespace ortconv::kernels::winograd {
namespace {

// What a block of tiles has at most, and floats of the src that is transformed for it. They stay in L2 with its
// products. Where L3 is fast, products take longer than reading src from it, and larger blocks read the weights less
// often; but several threads, which then have a block together, transform it twice.
struct Most {
  int64_t tiles, source;
};
constexpr Most kMostInL2{128, 350 << 10}, kMostInL3{256, 1050 << 10};

constexpr int64_t kFewPoints = 8;          // of a tile: a block may have twice as many of these
constexpr int64_t kLeastWithHalo = 4;      // tiles of an axis that has a halo, where a block has not all of them
constexpr int64_t kBlockCost = 4;          // of a block, in columns
constexpr int64_t kStreamBytes = 4 << 20;  // a dst beyond this would only evict what is still needed

AxisFrame place_axis(Op op, const AxisPlan& axis, int64_t dst_size, int64_t pad) {
  AxisFrame frame{};
  frame.pad = pad;
  if (op == Op::kConv) {
    frame.positions = dst_size;
    frame.origin = -pad;
  } else {
    const int64_t first = floor_div(pad, axis.stride);
    frame.origin = first - (axis.reach - 1) * axis.dilation;
    if (axis.separate) {
      frame.positions = ceil_div(dst_size, axis.stride);
    } else {
      frame.base = first * axis.stride - pad;
      frame.positions = floor_div(dst_size - 1 + pad, axis.stride) - first + 1;
    }
  }
  frame.tiles = ceil_div(ceil_div(frame.positions, axis.dilation), axis.step);
  frame.block = frame.tiles;
  frame.halo = axis.summed ? axis.reach - 1 : 0;
  return frame;
}

// Columns of `tiles` tiles of an axis in blocks of `block`, each tile worth `slab` columns.
int64_t columns_of(int64_t tiles, int64_t block, int64_t slab) {
  return tiles / block * align_up(block * slab, kGemmColumns) + align_up(tiles % block * slab, kGemmColumns);
}

// Tiles of an axis per block, such that rounding to whole vectors wastes least.
int64_t best_block(int64_t tiles, int64_t slab, int64_t most) {
  const auto cost = [&](int64_t num_blocks) {
    return columns_of(tiles, ceil_div(tiles, num_blocks), slab) + kBlockCost * num_blocks;
  };
  const int64_t least = ceil_div(tiles, std::max<int64_t>(1, most / slab));
  int64_t best = least;
  for (int64_t n = least; n <= std::min(tiles, 2 * least + 2); ++n) {
    if (cost(n) < cost(best)) best = n;
  }
  return ceil_div(tiles, best);
}

}  // namespace

int64_t skip_of(const AxisPlan& axis, const AxisFrame& frame, int64_t r) {
  if (!axis.separate) return axis.classes[r].skip;
  return ceil_div(frame.pad - r, axis.stride) - floor_div(frame.pad, axis.stride);
}

int64_t phase_of(const AxisPlan& axis, const AxisFrame& frame, int64_t r) {
  if (!axis.separate) return r;
  return r - frame.pad + ceil_div(frame.pad - r, axis.stride) * axis.stride;
}

Geometry::Geometry(const Plan& plan, const ConvProblem& p, int threads) {
  const int last = plan.ndims - 1;
  int64_t image = 1;
  pieces = outer_steps = 1;
  for (int a = 0; a <= last; ++a) {
    axis[a] = place_axis(plan.op, plan.axis[a], p.dst_size[a], p.pad[a]);
    image *= (axis[a].tiles + axis[a].halo) * plan.axis[a].dilation;
    if (a < last) pieces *= plan.axis[a].dilation, outer_steps *= plan.axis[a].step;
  }
  // Blocks: whole images while they fit, else ranges of the first axis whose slabs fit.
  const Most& limits = plan.far_source && threads <= 1 ? kMostInL3 : kMostInL2;
  int64_t most = std::clamp(limits.source / (plan.ic * plan.most_points), kGemmColumns,
                            limits.tiles * (plan.most_points <= kFewPoints ? 2 : 1));
  batch_block = 1;
  if (image <= most) {
    batch_block = best_block(p.mb, image, most);
  } else {
    int64_t slab = image;
    for (int a = 0; a <= last; ++a) {
      AxisFrame& f = axis[a];
      slab /= f.tiles + f.halo;
      f.block = f.halo == 0 ? 1 : std::min(f.tiles, kLeastWithHalo);
      if (slab * (f.block + f.halo) > most && a < last) {
        most /= f.block + f.halo;
        continue;
      }
      f.block = best_block(f.tiles, slab, std::max(slab, most - f.halo * slab));
      break;
    }
  }
  num_batch_blocks = ceil_div(p.mb, batch_block);
  columns = 1;
  int64_t num_position_blocks = num_batch_blocks, halo = 0;
  for (int a = last; a >= 0; --a) {
    AxisFrame& f = axis[a];
    f.num_blocks = ceil_div(f.tiles, f.block);
    halo += f.halo * columns;
    columns *= (f.block + f.halo) * (a == last ? plan.axis[a].dilation : 1);
    num_position_blocks *= f.num_blocks;
  }
  columns *= batch_block * pieces;
  const int64_t rows_of_tiles = columns / (axis[last].block * plan.axis[last].dilation);
  all_columns = num_position_blocks * align_up(columns - halo, kGemmColumns);
  columns = align_up(columns, kGemmColumns);
  // An odd number of cache lines spreads the rows over the sets of L1.
  if (columns % (2 * kGemmColumns) == 0) columns += kGemmColumns;

  store = store_of(size_of(plan.dtype), p, kStreamBytes);

  num_items = plan.g * num_position_blocks * plan.num_blocks;

  slice_size = 0;
  const auto room = [&](int64_t bytes) {
    const size_t begin = slice_size;
    slice_size += align64(static_cast<size_t>(bytes));
    return begin;
  };
  constexpr int64_t kFloat = sizeof(float);
  room(plan.most_points * point_stride(plan) * kFloat);
  products = room(plan.most_products * ceil_div(plan.oc, plan.num_blocks) * columns * kFloat);
  int64_t points = 0, outer_classes = 1;
  for (const Unit& unit : plan.units) points = std::max(points, unit.points / unit.outer_points);
  int64_t row = axis[last].block * plan.axis[last].dilation;
  for (int a = last - 1; a >= 0; --a) {
    if (!plan.axis[a].summed) {
      inner[a] = room(points * plan.axis[a].step * plane_floats(plan, a, row) * kFloat);
      points *= kMaxPoints;
    }
    row *= axis[a].block + axis[a].halo;
    outer_classes *= plan.axis[a].num_classes();
  }
  const int64_t line_bytes = (axis[last].block * plan.axis[last].step + plan.axis[last].window) * kFloat;
  line = room(line_bytes);
  widened = room(plan.dtype == DataType::kFloat ? 0 : line_bytes * plan.axis[last].dilation);
  const int64_t phases = plan.axis[last].step * plan.axis[last].num_classes();
  results = room(2 * plan.most_points * kMaxStep * columns * kFloat);
  planes = room((outer_steps * phases * columns + kLanes) * kFloat);
  phase_rows = room(phases * plan.axis[last].dilation * static_cast<int64_t>(sizeof(float*)));
  dst_rows = room(outer_classes * outer_steps * rows_of_tiles * static_cast<int64_t>(sizeof(DstRow)));
  dst_row_counts = room(outer_classes * static_cast<int64_t>(sizeof(int64_t)));
}

}  // namespace ortconv::kernels::winograd

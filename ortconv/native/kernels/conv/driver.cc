#include <algorithm>
#include <new>
#include <type_traits>

#include "base/math.h"
#include "base/ranges.h"
#include "kernels/bf16_split/magnitude.h"
#include "kernels/conv/bf16_split_stages.h"
#include "kernels/conv/stages.h"
#include "kernels/conv/tapwise.h"

namespace ortconv::kernels {
namespace {

struct Run {
  const Plan& plan;
  const ConvProblem& problem;
  const Geometry geometry;
  const void* src;
  const void* bias;  // of sums: widened, if it has to be
  void* dst;
  char* scratch;
  int64_t num_slices;

  template <class T>
  T* shared(size_t offset) const {
    return reinterpret_cast<T*>(scratch + offset);
  }
  template <class Cell>
  const Cell* packed() const {
    return plan.packed.empty() ? shared<const Cell>(geometry.packed) : plan.packed.as<const Cell>();
  }
};

// Where each tap of each GEMM group starts in the grid.
void fill_tap_offsets(const Run& run) {
  const Plan& plan = run.plan;
  int64_t* out = run.shared<int64_t>(run.geometry.tap_offsets);
  for (const GemmGroup& group : plan.groups) {
    for (int64_t tap = 0; tap < group.num_taps; ++tap) {
      int64_t rest = tap, plane = 0, offset = 0, planes = 1;
      for (int a = plan.ndims - 1; a >= 0; --a) {
        const AxisFrame& f = run.geometry.axis[a];
        const AxisGroup& ag = plan.axis[a].groups[group.axis_group[a]];
        const TapPlace place =
            place_tap(plan.op, plan.axis[a], f, run.problem.pad[a], ag.classes[0], ag.taps[0][rest % ag.num_taps()]);
        rest /= ag.num_taps();
        plane += place.plane * planes;
        planes *= f.num_planes;
        offset += place.offset * f.grid_stride;
      }
      *out++ = plane * run.geometry.plane_size + offset;
    }
  }
}

Block block_at(const Run& run, int64_t index) {
  const Geometry& geo = run.geometry;
  Block block{};
  for (int a = run.plan.ndims - 1; a >= 0; --a) {
    const AxisFrame& f = geo.axis[a];
    block.begin[a] = index % f.num_blocks * f.block;
    block.count[a] = std::min(f.block, f.positions - block.begin[a]);
    index /= f.num_blocks;
  }
  block.batch_begin = index % geo.num_batch_blocks * geo.batch_block;
  block.batch_count = std::min(geo.batch_block, run.problem.mb - block.batch_begin);
  block.group = index / geo.num_batch_blocks;
  return block;
}

// Cells of the grid from the first position of the block to the end of its last one.
int64_t flat_end(const Run& run, const Block& block) {
  const AxisFrame* axis = run.geometry.axis;
  int64_t last_cell = (block.batch_count - 1) * axis[0].grid * axis[0].grid_stride;
  for (int a = 0; a < run.plan.ndims; ++a) last_cell += (block.count[a] - 1) * axis[a].grid_stride;
  return last_cell + 1;
}

// The src of a block, if it can be read in place: it needs no zeros around it, and its rows are contiguous as those of
// the copy would be. For 16-bit elements, there has to be a microkernel that widens what it reads. Null otherwise.
template <class T>
const T* src_in_place(const Run& run, const Block& block) {
  const Plan& plan = run.plan;
  const ConvProblem& p = run.problem;
  const int last = plan.ndims - 1;
  if (plan.gemm_kernel<Sum<T>>().template of<T>() == nullptr || block.batch_count > 1 || p.src_x[last] != 1)
    return nullptr;
  int64_t begin = block.batch_begin * p.src_n + block.group * plan.ic * p.src_c;
  for (int a = 0; a <= last; ++a) {
    const AxisFrame& f = run.geometry.axis[a];
    if (!lies_in_src(plan.axis[a], f, block.begin[a], block.count[a], p.src_size[a], p.src_x[a])) return nullptr;
    begin += (block.begin[a] + f.shift_min) * p.src_x[a];
  }
  return static_cast<const T*>(run.src) + begin;
}

// Packed weights of more bytes are prefetched, since no cache of the core holds them: 2048 to 256 channels at 8x8 are
// then 1.25 times as fast. Prefetching fewer is slower.
constexpr int64_t kFarWeights = 2 << 20;

// Computes the sums of the blocks [first, end) of dst channels for all groups of a unit over one tile of positions. The
// channels of `grid` are grid_stride apart; `once`: it is not read again.
template <class Cell, class Operand>
void multiply(const Run& run, const Unit& unit, int64_t group_index, int64_t first, int64_t end, const Operand* grid,
              int64_t grid_stride, bool once, int64_t columns, Cell* tile) {
  const Plan& plan = run.plan;
  const Geometry& geo = run.geometry;
  const int64_t oc_begin = plan.block_begin(first), oc_count = plan.block_begin(end) - oc_begin;
  const auto gemm = plan.gemm_kernel<Cell>().template of<Operand>();
  const int64_t* tap_offsets = run.shared<const int64_t>(geo.tap_offsets);
  const bool far_weights = plan.packed_size() * static_cast<int64_t>(plan.cell_bytes) > kFarWeights;
  if (plan.merged || plan.ic == 0) std::fill_n(tile, oc_count * unit.num_classes * geo.columns, Cell());
  Cell* c[kMaxRows];
  BasicGemmArgs<Cell, Operand> args{0,           columns, 0,         0,     nullptr,     nullptr, nullptr,
                                    grid_stride, c,       geo.piece, false, far_weights, once};
  for (int64_t c0 = 0; c0 < plan.ic; c0 += plan.k_chunk) {
    args.k = std::min(plan.k_chunk, plan.ic - c0);
    args.b = grid + c0 * grid_stride;
    args.accumulate = plan.merged || c0 > 0;
    for (int64_t i = 0; i < unit.num_groups; ++i) {
      const GemmGroup& group = plan.groups[unit.first_group + i];
      args.taps = group.num_taps;
      args.tap_offset = tap_offsets + group.taps_before;
      for (int64_t block = first; block < end; ++block) {
        const int64_t block_oc = plan.block_begin(block + 1) - plan.block_begin(block);
        const Panels panels(block_oc * group.num_classes, plan.mr);
        const Cell* a =
            run.packed<Cell>() + plan.packed_offset(group_index, block, group) + c0 * panels.rows * group.num_taps;
        Cell* block_tile = tile + (plan.block_begin(block) - oc_begin) * unit.num_classes * geo.columns;
        for (int64_t panel = 0; panel < panels.count; ++panel) {
          const int64_t begin = panels.begin(panel), rows = panels.begin(panel + 1) - begin;
          for (int64_t row = 0; row < rows; ++row) {
            const int64_t oc = (begin + row) / group.num_classes, cls = (begin + row) % group.num_classes;
            c[row] = block_tile + (oc * unit.num_classes + group.unit_class[cls]) * geo.columns;
            if (group.num_taps == 0) std::fill_n(c[row], columns, Cell());
          }
          if (group.num_taps == 0) continue;
          args.rows = args.lda = rows;
          args.a = a;
          gemm(args);
          a += rows * group.num_taps * args.k;
        }
      }
    }
  }
}

// Computes work items, in the order group, block of positions, range of dst channels, until none is left.
template <class T>
void run_items(const Run& run, char* slice, Ranges& ranges) {
  const Plan& plan = run.plan;
  const Geometry& geo = run.geometry;
  using Cell = Sum<T>;
  Cell* grid = reinterpret_cast<Cell*>(slice);
  const bool in_parts = plan.parts != nullptr;
  uint16_t* parts_grid = reinterpret_cast<uint16_t*>(slice);
  Cell* tile = reinterpret_cast<Cell*>(slice + geo.slice_tile);
  Segment* segments = reinterpret_cast<Segment*>(slice + geo.slice_segments);
  const Scatter<T> stage{plan, geo, run.problem, run.shared<const int64_t>(geo.phases),
                         reinterpret_cast<const Cell**>(slice + geo.slice_rows)};
  const GatherBuffers<Cell> buffers{reinterpret_cast<int64_t*>(slice + geo.slice_sources),
                                    reinterpret_cast<Cell*>(slice + geo.slice_lines)};
  const bool in_place = may_read_in_place(plan);
  const int64_t blocks_per_group = geo.num_items / (geo.items_per_block * plan.g);
  int64_t gathered = -1, listed = -1;
  int64_t item = 0, end = 0;
  for (; item < end || ranges.take(&item, &end); ++item) {
    const int64_t index = item / geo.items_per_block;
    const Block block = block_at(run, index);
    const T* src = in_place ? src_in_place<T>(run, block) : nullptr;
    if (index != gathered && src == nullptr) {
      if (index % blocks_per_group != listed) list_sources(plan, geo, run.problem, block, buffers.sources);
      listed = index % blocks_per_group;
      if constexpr (kNumParts<T> > 0) {
        if (in_parts) {
          run.shared<Magnitude>(geo.largest)
              ->see(gather_parts(plan, geo, run.problem, block, static_cast<const T*>(run.src), buffers.sources,
                                 parts_grid));
        }
      }
      if (!in_parts) gather(plan, geo, run.problem, block, static_cast<const T*>(run.src), buffers, grid);
      gathered = index;
    }
    const int64_t first = item % geo.items_per_block * geo.blocks_per_item;
    const int64_t last = std::min(first + geo.blocks_per_item, plan.num_blocks);
    const int64_t cells = flat_end(run, block);
    for (int64_t cell = 0; cell < cells; cell += geo.columns) {
      const int64_t width = std::min(geo.columns, cells - cell);
      const int64_t num_segments = list_segments(plan, geo, block, cell, cell + width, segments);
      if (num_segments == 0) continue;
      for (const Unit& unit : plan.units) {
        for (int64_t b = first; b < last; b += geo.blocks_per_tile) {
          const int64_t b_end = std::min(b + geo.blocks_per_tile, last);
          if constexpr (kNumParts<T> > 0) {
            if (in_parts) {
              multiply_parts(plan, geo, run.shared<const int64_t>(geo.tap_offsets), unit, block.group, b, b_end,
                             parts_grid + cell * kPartChannels, align_up(width, kGemmColumns), tile);
            }
          }
          if (!in_parts) {
            if (src != nullptr) {
              multiply(run, unit, block.group, b, b_end, src + cell, run.problem.src_c, true, width, tile);
            } else {
              multiply(run, unit, block.group, b, b_end, grid + cell, geo.channel_stride, false, width, tile);
            }
          }
          const int64_t oc_count = plan.block_begin(b_end) - plan.block_begin(b);
          const int64_t oc = block.group * plan.oc + plan.block_begin(b);
          write_tile(stage, unit, segments, num_segments, width, tile, oc, oc_count, static_cast<const Cell*>(run.bias),
                     static_cast<T*>(run.dst));
        }
      }
    }
  }
  if (geo.store == Store::kStream) plan.interleave->fence();
}

template <class T>
void run_slices(Run& run, const Parallel& parallel) {
  run.bias = widened_bias(static_cast<const T*>(run.bias), run.problem.oc, run.shared<Sum<T>>(run.geometry.bias));
  const Geometry& geo = run.geometry;
  Ranges ranges(geo.num_items, geo.items_per_block, 1, run.num_slices);
  for_each(parallel, run.num_slices,
           [&](int64_t i) { run_items<T>(run, run.scratch + geo.slices + i * geo.slice_size, ranges); });
}

}  // namespace

size_t scratch_bytes(const Plan& plan, const ConvProblem& full, int threads) {
  threads = std::max(threads, 1);
  if (plan.packing == Packing::kTaps) {
    const size_t bytes = tapwise_scratch_bytes(plan, full, threads);
    return plan.in_floats == nullptr ? bytes : std::max(bytes, scratch_bytes(*plan.in_floats, full, threads));
  }
  const size_t bytes = Geometry(plan, full, threads).total;
  return plan.parts == nullptr ? bytes : std::max(bytes, scratch_bytes(*plan.in_floats, full, threads));
}

void run(const Plan& plan, const ConvProblem& full, const void* src, const void* wei, const void* bias, void* dst,
         void* scratch, const Parallel& parallel) {
  if (plan.packing == Packing::kTaps) {
    if (!run_tapwise(plan, full, src, bias, dst, scratch, parallel)) {
      kernels::run(*plan.in_floats, full, src, wei, bias, dst, scratch, parallel);
    }
    return;
  }
  const int threads = std::max(parallel.threads, 1);
  Run run{plan, full, Geometry(plan, full, threads), src, bias, dst, static_cast<char*>(scratch), 0};
  if (run.geometry.num_items == 0) return;
  fill_tap_offsets(run);
  fill_phases(plan, run.geometry, full, run.shared<int64_t>(run.geometry.phases));
  auto* largest = new (run.shared<void>(run.geometry.largest)) Magnitude;
  if (plan.packed.empty() && plan.parts == nullptr) {
    for_each(parallel, plan.g * plan.num_blocks, [&](int64_t i) {
      pack_weights(plan, wei, i / plan.num_blocks, i % plan.num_blocks, run.shared<void>(run.geometry.packed));
    });
  }
  run.num_slices = std::min<int64_t>(threads, run.geometry.num_items);
  with_float_type(plan.dtype, [&](auto zero) { run_slices<decltype(zero)>(run, parallel); });
  if (plan.parts != nullptr && !largest->suits_parts()) {
    kernels::run(*plan.in_floats, full, src, wei, bias, dst, scratch, parallel);
  }
}

}  // namespace ortconv::kernels

#include <algorithm>
#include <atomic>

#include "base/math.h"
#include "base/ranges.h"
#include "kernels/conv/plan.h"
#include "kernels/winograd/stages.h"

namespace ortconv::kernels::winograd {
namespace {

// Weights, in floats, that a run finds in no cache of a core's own.
constexpr int64_t kFarWeights = 1 << 18;

Block block_at(const Plan& plan, const Geometry& geo, const ConvProblem& p, int64_t index) {
  Block block{};
  const int last = plan.ndims - 1;
  int64_t row = 1, halo = 0;
  for (int a = last; a >= 0; --a) {
    const AxisFrame& f = geo.axis[a];
    block.begin[a] = index % f.num_blocks * f.block;
    block.count[a] = std::min(f.block, f.tiles - block.begin[a]);
    block.row[a] = row;
    halo += f.halo * row;
    row *= (block.count[a] + f.halo) * (a == last ? plan.axis[a].dilation : 1);
    index /= f.num_blocks;
  }
  block.batch_begin = index % geo.num_batch_blocks * geo.batch_block;
  block.batch_count = std::min(geo.batch_block, p.mb - block.batch_begin);
  block.columns = block.batch_count * geo.pieces * row;
  block.multiplied = block.columns - halo;
  block.group = index / geo.num_batch_blocks;
  return block;
}

// Where the taps of the summed axes find their columns, from the first column on. Returns their number.
int64_t tap_offsets(const Plan& plan, const Unit& unit, const Block& block, int64_t* offsets) {
  int64_t count = 1;
  offsets[0] = 0;
  for (int a = 0; a < plan.ndims - 1; ++a) {
    if (!plan.axis[a].summed) continue;
    const int64_t taps = unit.outer[a].num_taps();
    for (int64_t i = count * taps - 1; i >= 0; --i) {
      offsets[i] = offsets[i / taps] + (unit.outer[a].skip + i % taps) * block.row[a];
    }
    count *= taps;
  }
  return count;
}

// Products of a block of dst channels, with their packed weights: [family][point][row][column].
void multiply(const Plan& plan, const Geometry& geo, const Unit& unit, const Block& block, const float* weights,
              int64_t oc_count, char* slice) {
  const float* source = reinterpret_cast<const float*>(slice);
  float* products = reinterpret_cast<float*>(slice + geo.products);
  const bool far_weights = plan.packed_size() > kFarWeights;
  int64_t offsets[kMaxSummedTaps];
  const int64_t taps = tap_offsets(plan, unit, block, offsets), sum = plan.ic * taps;
  for (const Family& family : unit.families) {
    const Panels panels(oc_count * family.num_classes, plan.gemm->mr);
    for (int64_t p = 0; p < family.points; ++p, products += panels.rows * geo.columns) {
      const float* point_weights = weights + family.weight_of[p] * panels.rows * sum;
      const float* b = source + family.source_of[p] * geo.point_stride(plan);
      for (int64_t panel = 0; panel < panels.count; ++panel) {
        const int64_t begin = panels.begin(panel), rows = panels.begin(panel + 1) - begin;
        const float* a = point_weights + begin * sum;
        float* c[kMaxRows];
        for (int64_t row = 0; row < rows; ++row) c[row] = products + (begin + row) * geo.columns;
        for (int64_t c0 = 0; c0 < plan.ic; c0 += plan.call) {
          const int64_t depth = std::min(plan.call, plan.ic - c0);
          plan.gemm->run({rows, block.multiplied, taps, depth, a + c0 * taps * rows, b + c0 * geo.columns, offsets,
                          geo.columns, c, plan.piece, c0 > 0, far_weights});
        }
      }
    }
    weights += family.weights * panels.rows * sum;
  }
}

// What of src a slice holds transformed.
struct Held {
  int64_t block = -1;  // of tiles
  size_t unit = 0;
};

// The work items [begin, end), whose order is group, block of tiles, block of dst channels. Returns the bits of the
// largest magnitude in what of src was transformed.
template <class T>
uint32_t run_items(const Run<T>& run, char* slice, int64_t begin, int64_t end, Held* held) {
  const Plan& plan = run.plan;
  const Geometry& geo = run.geometry;
  uint32_t largest = 0;
  for (int64_t item = begin, stop; item < end; item = stop) {
    const int64_t index = item / plan.num_blocks;
    const Block block = block_at(plan, geo, run.problem, index);
    const int64_t first = item % plan.num_blocks;
    stop = std::min(item - first + plan.num_blocks, end);
    const int64_t last = first + stop - item;
    const size_t num_units = plan.units.size(), begin_unit = held->block == index ? held->unit : 0;
    for (size_t i = 0; i < num_units; ++i) {
      const size_t u = (begin_unit + i) % num_units;
      const Unit& unit = plan.units[u];
      if (held->block != index || held->unit != u) {
        if (held->block != index || plan.units[held->unit].source != unit.source) {
          largest = std::max(largest, transform_source(run, unit, block, slice));
        }
        list_rows(plan, geo, run.problem, unit, block, slice);
        *held = {index, u};
      }
      for (int64_t b = first; b < last; ++b) {
        const int64_t oc_begin = plan.block_begin(b), oc_count = plan.block_begin(b + 1) - oc_begin;
        const float* weights = plan.packed_block(block.group, b) + unit.weights_before * oc_count * plan.ic;
        multiply(plan, geo, unit, block, weights, oc_count, slice);
        write_results(run, unit, block, oc_begin, oc_count, slice);
      }
    }
  }
  if (geo.store == Store::kStream) plan.interleave->fence();
  return largest;
}

template <class T>
bool run_typed(const Run<T>& run, void* scratch, const Parallel& parallel) {
  const int64_t items = run.geometry.num_items, blocks = run.plan.num_blocks;
  const int64_t slices = std::min<int64_t>(std::max(parallel.threads, 1), items);
  // Items of one block of tiles share its transformed src: a quarter of them is worth that; fewer of a single unit,
  // which a thread transforms once for all its ranges.
  const int64_t worth = run.plan.units.size() == 1 ? 8 : 4;
  Ranges ranges(items, blocks, ceil_div(blocks, worth), slices);
  std::atomic<bool> tame{true};
  for_each(parallel, slices, [&](int64_t i) {
    char* slice = static_cast<char*>(scratch) + i * run.geometry.slice_size;
    uint32_t largest = 0;
    Held held;
    for (int64_t begin, end; ranges.take(&begin, &end);) {
      largest = std::max(largest, run_items(run, slice, begin, end, &held));
    }
    if (!(float_of(largest) <= kMaxMagnitude)) tame = false;
  });
  return tame;
}

}  // namespace

size_t scratch_bytes(const Plan& plan, const ConvProblem& full, int threads) {
  return static_cast<size_t>(std::max(threads, 1)) * Geometry(plan, full, threads).slice_size;
}

bool run(const Plan& plan, const ConvProblem& full, const void* src, const void* bias, void* dst, void* scratch,
         const Parallel& parallel) {
  const Geometry geometry(plan, full, parallel.threads);
  return with_float_sum_type(plan.dtype, [&](auto zero) {
    using T = decltype(zero);
    return run_typed(
        Run<T>{plan, full, geometry, static_cast<const T*>(src), static_cast<const T*>(bias), static_cast<T*>(dst)},
        scratch, parallel);
  });
}

}  // namespace ortconv::kernels::winograd

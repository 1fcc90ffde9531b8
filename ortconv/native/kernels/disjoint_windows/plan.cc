#include "kernels/disjoint_windows/plan.h"

#include <algorithm>

#include "kernels/fill.h"
#include "kernels/gemm/pieces.h"
#include "kernels/im2col/product.h"

namespace ortconv::kernels::disjoint_windows {
namespace {

constexpr int64_t kBlockRows = 512;           // of a block, about, unless one channel has more
constexpr int64_t kProductBytes = 128 << 10;  // of a tile, so that they stay in L2
constexpr int64_t kMostTile = 96;             // positions: what a panel of weights is read for

template <class T>
void pack(const Plan& plan, const ConvProblem& p, const T* wei, int64_t group, int64_t block, Sum<T>* packed) {
  int64_t dense = 1;
  bool contiguous = true;  // the rows of a src channel are
  for (int a = p.ndims - 1; a >= 0; --a) {
    contiguous = contiguous && (p.wei_x[a] == dense || p.ker[a] == 1);
    dense *= p.ker[a];
  }
  contiguous = contiguous && p.wei_1 == dense;
  const int64_t first = block * plan.block, rows = std::min(plan.block, plan.oc - first) * plan.taps;
  const im2col::Kernels<T> kernels(plan.arch);
  Sum<T>* out = packed + (group * plan.num_blocks + block) * plan.block_size();
  for (int64_t begin = 0; begin < plan.block_rows; begin += plan.panel) {
    const T* in = wei + group * plan.ic * p.wei_0 + first * p.wei_1;
    const int64_t pitch = std::min(plan.panel, plan.block_rows - begin);
    const int64_t count = std::clamp<int64_t>(rows - begin, 0, pitch);
    int64_t offset[im2col::kMostPanelRows];
    for (int64_t i = 0; i < count; ++i) {
      const int64_t row = begin + i;
      offset[i] = row / plan.taps * p.wei_1 + offset_of(row % plan.taps, p.ker, p.wei_x, p.ndims);
    }
    for (int64_t k = 0; k < plan.ic; ++k, in += p.wei_0, out += pitch) {
      if (contiguous) {
        kernels.load(in + begin, 1, count, out);
      } else {
        for (int64_t i = 0; i < count; ++i) out[i] = widen(in[offset[i]]);
      }
      for (int64_t i = count; i < pitch; ++i) out[i] = Sum<T>();
    }
  }
}

}  // namespace

bool takes(const ConvProblem& p) {
  // Longer sums would have to be added up in totals.
  constexpr int64_t kMostChannels = im2col::kMostDepth * im2col::kMostCalls;
  if (p.ic == 0 || p.oc == 0 || p.ic / p.g > kMostChannels) return false;
  bool any = false;
  for (int a = 0; a < p.ndims; ++a) {
    if (p.stride[a] < kernel_extent(p, a)) return false;
    any |= p.stride[a] > 1;
  }
  return any;
}

bool can_run(const ConvProblem& p) { return src_positions_are_dense(p) && p.dst_x[p.ndims - 1] == 1; }

Plan::Plan(const ConvProblem& p, DataType dtype, const ArchFlags& arch)
    : dtype(dtype),
      arch(arch),
      g(p.g),
      ic(p.ic / p.g),
      oc(p.oc / p.g),
      taps(product_of(p.ker, p.ndims)),
      row(p.ker[p.ndims - 1]) {
  mr = dtype == DataType::kDouble ? get_gemm_f64_kernel(arch).mr : get_gemm_kernel(arch).mr;
  depth = even_piece(ic, im2col::kMostDepth);
  piece = piece_of_channels(ic, depth);
  num_blocks = ceil_div(oc, std::max<int64_t>(1, kBlockRows / taps));
  block = ceil_div(oc, num_blocks);
  num_blocks = ceil_div(oc, block);
  block_rows = align_up(block * taps, kGemmColumns);
  panel = im2col::panel_rows(ic);
}

PlanPtr make_plan(const ConvProblem& p, DataType dtype, const void* wei_const, const ArchFlags& arch) {
  auto plan = std::make_shared<Plan>(p, dtype, arch);
  if (wei_const == nullptr) return plan;
  plan->packed = Buffer(static_cast<size_t>(plan->packed_size()) * sum_size_of(dtype));
  for (int64_t i = 0; i < plan->g * plan->num_blocks; ++i) {
    pack_weights(*plan, p, wei_const, i / plan->num_blocks, i % plan->num_blocks, plan->packed.as<void>());
  }
  return plan;
}

void pack_weights(const Plan& plan, const ConvProblem& p, const void* wei, int64_t group, int64_t block, void* packed) {
  with_float_type(plan.dtype, [&](auto zero) {
    using T = decltype(zero);
    pack(plan, p, static_cast<const T*>(wei), group, block, static_cast<Sum<T>*>(packed));
  });
}

Geometry::Geometry(const Plan& plan, const ConvProblem& p, int threads) {
  inner = product_of(p.src_size, p.ndims) / p.src_size[0];
  gaps = false;
  for (int a = 0; a < p.ndims; ++a) {
    gaps |= p.ker[a] < p.stride[a] || p.pad[a] + p.dst_size[a] > p.src_size[a] * p.stride[a];
  }
  gaps_lie_far = kernels::gaps_lie_far(p, size_of(plan.dtype));
  const int64_t parts = p.mb * p.g * plan.num_blocks, wanted = threads > 1 ? 4 * threads : 1;
  slab = ceil_div(p.src_size[0], std::min(p.src_size[0], ceil_div(wanted, parts)));
  num_slabs = ceil_div(p.src_size[0], slab);
  items = parts * num_slabs;
  with_float_type(plan.dtype, [&](auto zero) {
    using T = decltype(zero);
    using Cell = Sum<T>;
    const int64_t most = std::max<int64_t>(kProductBytes / (plan.pitch() * static_cast<int64_t>(sizeof(Cell))), 1);
    const int64_t calls = std::max<int64_t>(1, std::min(most, kMostTile) / plan.mr);
    tile = std::min(calls * plan.mr, align_up(slab * inner, plan.mr));
    im2col::Parts shared, slice;
    packed = shared.add<Cell>(plan.packed.empty() ? plan.packed_size() : 0);
    slices = shared.bytes();
    src = slice.add<Cell>(plan.depth * tile);
    constexpr int64_t kLine = 1024;
    line_cells = std::is_same_v<T, Cell> ? 0 : std::max(tile, kLine);
    line = slice.add<Cell>(line_cells);
    products = slice.add<Cell>(tile * plan.pitch());
    rounded = slice.add<T>(std::is_same_v<T, Cell> ? 0 : tile * plan.pitch());
    bias = slice.add<Cell>(plan.block);
    gap = slice.add<Cell>(plan.block);
    offsets = slice.add<int64_t>(plan.taps / plan.row);
    places = slice.add<int64_t>(slab * inner);
    slice_bytes = slice.bytes();
  });
}

int64_t Geometry::num_slices(int threads) const { return std::min<int64_t>(std::max(threads, 1), items); }

}  // namespace ortconv::kernels::disjoint_windows

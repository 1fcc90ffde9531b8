#include "kernels/conv/depthwise_layout.h"

#include <algorithm>
#include <numeric>

#include "base/math.h"

namespace ortconv::kernels {
namespace {

constexpr int64_t kCopyBytes = 24 << 10;  // copy of rows of src, meant to stay in L1
// Whole rows that follow each other are written into the last cache faster than past it, up to a dst of this size.
constexpr int64_t kStreamBytes = 8 << 20;
constexpr int64_t kMostVectors = 256;  // of a row of dst in one block
// From this size of src and dst on, it pays to read and write them from beginning to end, as the CPU then prefetches.
constexpr int64_t kFarBytes = 1 << 20;

}  // namespace

DepthwiseAxis::DepthwiseAxis(Op op, const ConvProblem& p, int a)
    : ker(p.ker[a]), stride(p.stride[a]), dilation(p.dilation[a]), pad(p.pad[a]) {
  if (op == Op::kConv) {
    classes = 1, step = stride, base = 0, first = 0, positions = p.dst_size[a];
  } else {
    classes = stride, step = 1, base = pad, first = pad / stride;
    positions = (p.dst_size[a] - 1 + pad) / stride - first + 1;
  }
  const int64_t one = shift_of(op, 0), other = shift_of(op, ker - 1);
  least_shift = std::min(one, other);
  spread = std::max(one, other) - least_shift;
  inner_begin = std::max(ceil_div(least_shift + spread, step), ceil_div(base, classes));
  inner_end = std::min(ceil_div(p.src_size[a] + least_shift, step), floor_div(p.dst_size[a] + base, classes));
}

void DepthwiseAxis::cut(int64_t most) {
  num_blocks = ceil_div(positions, std::clamp<int64_t>(most, 1, positions));
  block = ceil_div(positions, num_blocks);
}

int64_t cut_axes(DepthwiseAxis* axis, int last, int64_t most) {
  int64_t rows = 1;
  for (int a = 0; a < last; ++a) rows *= axis[a].spread + 1;
  bool fits = true;
  for (int a = last - 1; a >= 0; --a) {
    const int64_t other_rows = rows / (axis[a].spread + 1);
    const int64_t room = most / other_rows - axis[a].spread - 1;
    axis[a].cut(fits && room >= 0 ? room / axis[a].step + 1 : 1);
    fits = fits && axis[a].num_blocks == 1;
    rows = other_rows * axis[a].src_reach();
  }
  return rows;
}

int64_t rows_of(const DepthwiseLayout& layout) {
  int64_t rows = 1;
  for (int a = 0; a < layout.last; ++a) rows *= layout.axis[a].classes;
  return rows;
}

DepthwiseLayout::DepthwiseLayout(const Plan& plan, const ConvProblem& p, int threads) : last(plan.ndims - 1) {
  const auto cell = plan.cell_bytes;
  lanes = cell == sizeof(double) ? plan.depthwise->lanes_f64 : plan.depthwise->lanes_f32;
  for (int a = 0; a <= last; ++a) axis[a] = DepthwiseAxis(plan.op, p, a);
  const DepthwiseAxis& x = axis[last];
  plain = x.classes == 1;
  patterns = x.classes / std::gcd(lanes, x.classes);
  period = lanes * patterns / x.classes;
  const int64_t numbers = p.ic * product_of(p.src_size, p.ndims) + p.oc * product_of(p.dst_size, p.ndims);
  by_images = plain && p.mb * numbers * static_cast<int64_t>(plan.element_bytes) > kFarBytes;
  vectors = ceil_div(p.dst_size[last], lanes);
  most_steps = x.num_shifts(plan.op);
  outer_taps = 1, most_rows = 1;
  for (int a = 0; a < last; ++a) {
    outer_taps *= axis[a].ker;
    most_rows *= axis[a].num_shifts(plan.op);
  }
  row_taps = most_rows * rows_of(*this);

  // Blocks of positions whose src, with what is around it, is near.
  block_vectors = std::min(vectors, ceil_div(kMostVectors, patterns) * patterns);
  num_row_blocks = ceil_div(vectors, block_vectors);
  pitch = ceil_div(block_vectors, patterns) * period + x.spread + 2 * lanes + 1;
  copy_rows = cut_axes(axis, last, kCopyBytes / static_cast<int64_t>(cell) / pitch);
  num_blocks = num_row_blocks;
  for (int a = 0; a < last; ++a) num_blocks *= axis[a].num_blocks;
  num_items = p.mb * p.oc * num_blocks;
  num_slices = std::min<int64_t>(std::max(threads, 1), num_items);
  store = store_of(plan.element_bytes, p, kStreamBytes);

  slice_rows = 0;
  slice_weight_rows = slice_rows + align64(most_rows * sizeof(void*));
  slice_taps = slice_weight_rows + align64(most_rows * sizeof(void*));
  slice_shifts = slice_taps + align64(row_taps * sizeof(void*));
  slice_offsets = slice_shifts + align64(most_rows * std::max(last, 1) * sizeof(int64_t));
  slice_index = slice_offsets + align64(most_steps * patterns * sizeof(int64_t));
  slice_weights = slice_index + 2 * align64(most_steps * patterns * lanes * sizeof(int32_t));
  slice_tap_row = slice_weights + align64(outer_taps * most_steps * patterns * lanes * cell);
  slice_copy = slice_tap_row + align64((x.ker + 1) * cell);
  slice_lines = slice_copy + align64((copy_rows * pitch + kCopyOverrun) * cell);
  slice_size = slice_lines + kMaxDepthwiseRows * align64(block_vectors * lanes * cell);
}

}  // namespace ortconv::kernels

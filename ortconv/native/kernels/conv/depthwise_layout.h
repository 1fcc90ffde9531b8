// What a run of kernels/conv/depthwise.cc knows before it begins: positions, blocks, scratch layout.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/conv/geometry.h"

namespace ortconv::kernels {

// At position j of an axis class r writes dst[j * classes + r - base] and reads src[j * step - shift] for its taps.
struct DepthwiseAxis {
  int64_t ker, classes, step, base;
  int64_t first, positions;
  int64_t inner_begin, inner_end;  // the positions that need nothing outside src and write nothing outside dst
  int64_t spread;                  // largest shift less the smallest
  int64_t least_shift;
  int64_t block, num_blocks;
  int64_t stride, dilation, pad;

  DepthwiseAxis() = default;
  DepthwiseAxis(Op op, const ConvProblem& p, int a);

  int64_t shift_of(Op op, int64_t k) const { return op == Op::kConv ? pad - k * dilation : k * dilation / stride; }
  int64_t class_of(Op op, int64_t k) const { return op == Op::kConv ? 0 : k * dilation % stride; }
  // Shifts that taps may have; of a convolution with a dilation most of those in between have none.
  int64_t num_shifts(Op op) const { return op == Op::kConv || stride == 1 ? ker : std::min(ker, spread + 1); }

  // Cuts the positions into blocks of nearly equal size, at most `most`.
  void cut(int64_t most);
  // Src positions from the first to the last that a block needs.
  int64_t src_reach() const { return (block - 1) * step + spread + 1; }
};

// Cuts the axes before the last into blocks that need at most `most` rows of src, if that is possible; from the one
// before the last on, as far as they are not cut. Returns the rows.
int64_t cut_axes(DepthwiseAxis* axis, int last, int64_t most);

struct DepthwiseLayout {
  int last;
  DepthwiseAxis axis[kMaxSpatial];
  int64_t lanes, patterns, vectors, period;  // of a row of dst; src elements from one use of a pattern to the next
  bool plain;
  bool by_images;  // channels of one image after the other; else images of one channel, whose weights are laid out once
  int64_t block_vectors, num_row_blocks, num_blocks;
  int64_t outer_taps, row_taps, most_rows, most_steps;
  int64_t copy_rows, pitch;
  int64_t num_items, num_slices;
  Store store;
  // Byte offsets into the scratch, which holds a slice per thread: tables, weights, the copy of src, rows of sums.
  size_t slice_rows, slice_weight_rows, slice_taps, slice_shifts, slice_offsets, slice_index, slice_weights,
      slice_tap_row, slice_copy, slice_lines, slice_size;

  DepthwiseLayout(const Plan& plan, const ConvProblem& p, int threads);
};

// Rows of dst of one position, all axes before the last.
int64_t rows_of(const DepthwiseLayout& layout);

// Calls fn(row) for each row of src at positions [low, high) of the axes before the last; `in` is the row at 0.
template <class T, class Fn>
void for_each_row(const ConvProblem& p, const T* in, const int64_t* low, const int64_t* high, Fn fn) {
  const int outer_axes = p.ndims - 1;
  int64_t rows = 1, at[kMaxSpatial];
  for (int a = 0; a < outer_axes; ++a) {
    rows *= high[a] - low[a];
    at[a] = low[a];
    in += low[a] * p.src_x[a];
  }
  for (; rows > 0; --rows) {
    fn(in);
    for (int a = outer_axes - 1; a >= 0; --a) {
      in += p.src_x[a];
      if (++at[a] < high[a]) break;
      in -= (high[a] - low[a]) * p.src_x[a];
      at[a] = low[a];
    }
  }
}

}  // namespace ortconv::kernels

// What one run adds to a plan: positions, padded copies of src, blocks, scratch layout.
//
// Positions. Every class of an axis is computed at positions j in [0, positions); class r at position j writes
//     dst = j * dst_step + phase(r) + base        and reads     src = src_step * (j + shift) + rho
// where (shift, rho) belong to the tap. The phases are a permutation of [0, dst_step), so a run of positions of all
// classes is a run of dst. Base is zero, except that merged classes must share their shifts: there base is in
// (-dst_step, 0] and the first or last group of outputs is cut.
//
// Grid. A block of positions reads a zero-padded copy of src whose rows are laid end to end, so that a tap is one
// constant offset and a tile of positions may run over row ends. Two ways to give a tap its shift on an axis:
//   halo:   the grid is wider than the block by the spread of the shifts; the extra columns are computed in vain;
//   planar: one copy ("plane") of the grid per distinct shift, no column is wasted. Pays on small images.
// A forward convolution has a plane for every residue rho as well.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/conv/plan.h"

namespace ortconv::kernels {

constexpr int64_t kMaxPlanarTaps = 16;
constexpr int64_t kMaxColumns = 128;  // widest tile of positions, but for tiles of few rows
constexpr int64_t kLines = 32;        // rows of src that the copy prepares at a time
constexpr int64_t kCopyOverrun = 7;   // cells that the copy may write beyond a row
constexpr int64_t kGridSlack = 64;    // cells after the last channel of the copy of src

struct AxisFrame {
  bool merged;
  int64_t positions, base;
  int64_t first;  // merged: the shift of every class at q = 0
  int64_t block, num_blocks;
  int64_t grid, grid_stride;
  int64_t shift_min, shift_max;
  bool planar;
  int64_t num_planes;
  int64_t plane_shift[kMaxPlanarTaps];  // planar transposed convolution: in order of first use
};

struct TapPlace {
  int64_t plane, offset;
};

struct Geometry {
  AxisFrame axis[kMaxSpatial];
  int64_t batch_block, num_batch_blocks;
  int64_t outer_planes;    // planes of the axes before the last, all together
  int64_t image_rows;      // rows of the grid of one image
  int64_t plane_size;      // batch_block images, and zeros: what the last row shares with none, slack for the copy
  int64_t channel_stride;  // all planes of one channel, and skew
  int64_t part_stride;     // numbers in parts: all planes of one part of a block of channels
  int64_t columns;         // positions per tile, a multiple of kGemmColumns
  int64_t blocks_per_item, items_per_block;  // blocks of dst channels that a work item covers
  int64_t blocks_per_tile;                   // blocks of dst channels held in the tile buffer
  int64_t num_items = 0;                     // none: dst is empty, and the rest of this is not filled in
  Store store;
  int64_t piece;  // that of the plan, or a shorter one for sums that are shorter than the plan assumes

  // Byte offsets into the scratch: shared tables, then widened bias, what is known of the magnitude of src, packed
  // weights, then one slice per thread.
  size_t tap_offsets, phases, bias, largest, packed, slices, total = 0;
  // Inside a slice, which begins with the copy of src.
  size_t slice_size, slice_tile, slice_rows, slice_segments, slice_sources, slice_lines;

  Geometry(const Plan& plan, const ConvProblem& problem, int threads);
};

// Whether dst should go past the caches, which are to hold at most so many bytes of it. Never where its rows are not
// whole cache lines: writing the ends of rows into the caches and the rest past them takes up to three times as long.
Store store_of(size_t element_bytes, const ConvProblem& problem, int64_t most_cached);

// Whether a copy of src would not pay, since it would be read only once: by a single tap, or because one call sums the
// rows of all classes. Blocks that need no zeros around them are then read where they are.
bool may_read_in_place(const Plan& plan);
// Whether so many positions of an axis, from `begin` on, need no zeros around src, and lie in it as in the copy.
bool lies_in_src(const AxisPlan& axis, const AxisFrame& frame, int64_t begin, int64_t count, int64_t src_size,
                 int64_t src_x);

// The most taps of a class that a position meets: fewer than all where src is so small.
struct MetTaps {
  int64_t most;
  bool all;
};
MetTaps met_taps(const ConvProblem& problem);

// Phase and shift of class r of a transposed convolution.
int64_t phase_of(const AxisPlan& axis, const AxisFrame& frame, int64_t pad, int64_t r);
int64_t shift_of(const AxisPlan& axis, const AxisFrame& frame, int64_t pad, int64_t r);

// Where the grid holds what tap k (of class r) reads at position 0.
TapPlace place_tap(Op op, const AxisPlan& axis, const AxisFrame& frame, int64_t pad, int64_t r, int64_t k);

// Cells of the buffer for one zero-padded row of src.
int64_t line_capacity(const AxisPlan& axis, const AxisFrame& frame);

// The src index that cell 0 of a plane holds, relative to the start of the block.
int64_t plane_origin(Op op, const AxisPlan& axis, const AxisFrame& frame, int64_t pad, int64_t plane);

}  // namespace ortconv::kernels

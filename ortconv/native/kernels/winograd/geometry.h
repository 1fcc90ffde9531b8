// What one run adds to a plan: tiles, blocks of them, scratch layout.
//
// Positions. With shared windows every class r at position q writes dst = q * s + r + base; the first and the last
// group of outputs may be cut. With separate windows base is zero and class r writes dst = q * s + phase(r).
// Tile t of residue v covers the positions q = v + d * (step * t + j), 0 <= j < step.
//
// Columns. The tiles of a block are laid end to end: image, residues of the axes before the last, tiles of these axes,
// residue of the last axis, tiles of the last axis. The tiles of one image and residue are a *piece*. Behind the tiles
// of a summed axis, whose windows overlap, stand those elements that only the other taps reach: its halo.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/winograd/plan.h"

namespace ortconv::kernels::winograd {

struct AxisFrame {
  int64_t pad;
  int64_t positions, base, origin;
  int64_t tiles;  // of each residue
  int64_t halo;
  int64_t block, num_blocks;
};

struct Geometry {
  AxisFrame axis[kMaxAxes];
  int64_t batch_block, num_batch_blocks;
  int64_t pieces;       // residues of the axes before the last, all together
  int64_t outer_steps;  // outputs of a tile on these axes
  int64_t columns;      // of the largest block, and skew
  int64_t all_columns;  // of all blocks, as the microkernels round them
  int64_t num_items;    // blocks of tiles, and of dst channels in each
  Store store;

  // Byte offsets into a thread's slice of the scratch, which begins with the transformed src.
  size_t products, results, planes, phase_rows, dst_rows, dst_row_counts, line, widened, slice_size;
  size_t inner[kMaxAxes];

  Geometry(const Plan& plan, const ConvProblem& problem, int threads);

  // Floats of the transformed src of one point.
  int64_t point_stride(const Plan& plan) const { return plan.ic * columns + kLanes; }
  // Floats of the rows of equal remainder of axis a, each of `row` floats: see Source.
  int64_t plane_floats(const Plan& plan, int a, int64_t row) const {
    return ((axis[a].block + plan.axis[a].window / plan.axis[a].step + 1) * row + 2 * kLanes - 1) / kLanes * kLanes;
  }
};

// Where class r begins in a window, and which output of a group it is.
int64_t skip_of(const AxisPlan& axis, const AxisFrame& frame, int64_t r);
int64_t phase_of(const AxisPlan& axis, const AxisFrame& frame, int64_t r);

}  // namespace ortconv::kernels::winograd

// What is known of a node before its inputs, and how a run is divided.
#pragma once

#include <cstdint>

#include "base/buffer.h"
#include "kernels/disjoint_windows/disjoint_windows.h"
#include "kernels/gemm/gemm.h"

namespace ortconv::kernels::disjoint_windows {

// Weights are packed in panels: [group][block][panel][src channel][row]. The rows of a block are its dst channels, and
// in each the taps, row-major, with zeros up to whole vectors; the last panel of a block may have fewer vectors.
struct Plan {
  DataType dtype;
  ArchFlags arch;
  int64_t g, ic, oc;   // channels per group
  int64_t taps, row;   // of a window, and of one of its rows along the last axis
  int64_t mr;          // most positions of a call of the GEMM
  int64_t depth;       // src channels that a call adds up
  int64_t piece;       // products that are summed one after the other
  int64_t block;       // dst channels
  int64_t num_blocks;  // of a group
  int64_t block_rows;  // of the panels of a block
  int64_t panel;       // rows of a panel
  Buffer packed;       // empty when the weights are not constant

  Plan(const ConvProblem& static_part, DataType dtype, const ArchFlags& arch);

  // Between the products of two positions: an odd number of cache lines, or those of a channel would evict each other.
  int64_t pitch() const { return (block_rows / kGemmColumns | 1) * kGemmColumns; }
  int64_t block_size() const { return block_rows * ic; }  // of packed weights
  int64_t packed_size() const { return g * num_blocks * block_size(); }
};

// Packs the weights of a block into `packed`, the start of the array of all blocks.
void pack_weights(const Plan& plan, const ConvProblem& static_part, const void* wei, int64_t group, int64_t block,
                  void* packed);

struct Geometry {
  int64_t inner;            // positions of the axes after the first
  int64_t slab, num_slabs;  // positions of the first axis in a work item
  int64_t tile;             // positions whose products are kept
  bool gaps;                // some outputs are the bias alone
  bool gaps_lie_far;        // see kernels/fill.h
  int64_t line_cells;       // of src that are widened at once
  int64_t items;            // an image, a group, a block of dst channels and a slab each

  // Byte offsets into the scratch: packed weights, then slices, one per thread. In a slice:
  size_t packed, slices, slice_bytes;
  size_t src, line, products, rounded, bias, gap, offsets, places;

  Geometry(const Plan& plan, const ConvProblem& problem, int threads);
  int64_t num_slices(int threads) const;
};

}  // namespace ortconv::kernels::disjoint_windows

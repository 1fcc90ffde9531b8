// What one run adds to a plan: columns and their blocks, where they lie in src and dst, scratch layout.
//
// The columns of the GEMM are the src positions of all images. Panels of them, as wide as a register tile, are packed
// side by side for all src channels; a block is as many as fit into a part of L2, all of which a panel of weights meets
// while it is in L1.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/depth_to_space/plan.h"

namespace ortconv::kernels::depth_to_space {

struct Layout {
  int64_t lanes;  // of a vector of sums
  int64_t line;   // elements of a line of dst
  int64_t positions, panel_columns;
  int64_t block_panels, num_blocks;
  int64_t panel_pieces;  // most pieces of dst of one panel
  bool stream;           // past the caches, where the lines of dst are whole vectors
  // Byte offsets into the scratch: where each group of dst begins, its bias, what is known of the magnitude of src,
  // packed weights, one slice per thread.
  size_t bias, largest, packed, slices, slice_size, total;
  // Inside a slice, of two blocks each: packed columns, then what is listed of them.
  size_t cells_size, slice_panels, panels_size, slice_runs, runs_size, slice_pieces, pieces_size;

  Layout(const Plan& plan, const ConvProblem& problem, int threads);
};

struct Panel {
  int64_t columns, num_pieces;
  bool whole;  // each line of a group is one piece
};

// A block of columns: where they come from, and where what becomes of them goes.
struct Block {
  int64_t num_panels;
  Panel* panels;
  Run *runs, *runs_end;  // of src, counted from its first channel
  Piece* pieces;         // room for Layout::panel_pieces of each panel
};

// Fills in the block of that index.
void list_block(const Plan& plan, const Layout& layout, const ConvProblem& problem, int64_t index, Block* block);

}  // namespace ortconv::kernels::depth_to_space

// All of what a run is divided into, and the scratch that it takes.
//
// Each struct that this is derived from is found from those before it: the axes (axes.h), how sums are written to dst
// (writing.h), what the GEMM multiplies (multiplication.h), the work items (items.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/gemm_col2im/items.h"

namespace ortconv::kernels::gemm_col2im {

// Tiles of src whose copies are kept.
constexpr size_t kMostCopies = 32;

struct Geometry : Items {
  int64_t slot_size, channel_size;    // sums of an item: of a slot, of a channel
  int64_t j_step;                     // from the sums of a j to those of the next one
  int64_t zeros, num_zeros;           // where in those of a channel there are zeros
  int64_t tile_rows;                  // of weights: room for so many
  int64_t transposed_pitch;           // of a tile whose weights are the B operand
  bool lists_taps_once;               // for every tile
  bool has_one_tile;                  // of positions, in every part, and many taps: it is listed before the run
  bool sums_parts;                    // of its rows of products: see TileLists
  bool all_depth;                     // the copy of a tile of src has all src channels
  int64_t src_copies, src_copy_size;  // tiles of src whose copies are kept for the next channels of dst; of one
  bool in_strips;                     // the copy of src is cut into strips, in which channels follow each other
  bool copied_by_gemm;                // whole strips, by the first panel that they are multiplied with
  int64_t strip;                      // their columns, as many as a tile of the GEMM has
  bool prefetches, prefetches_src;    // wide panels; src in place
  bool far_weights, near_src;         // weights that are not in L2; a src that stays there

  // Byte offsets into the scratch: src in floats, packed weights, products of all tiles of an item, if they are shared,
  // then slices, one per thread. In a slice:
  size_t widened, packed, shared_products, slices, slice_bytes;
  size_t segments, rows, shifts, src, products, transposed, totals, sums, rounded, bias, gap, repeated, staged;

  Geometry(const Plan& plan, const ConvProblem& p, int threads);

  // Sums of a row of a slot; vectors of all rows of a channel.
  int64_t sums_row() const { return axis[vector_axis].j_count * unit; }
  int64_t num_vectors() const { return slots * slab * inner_j / sums_row() * ceil_div(sums_row(), int64_t{kSumLanes}); }

 private:
  bool may_sum_parts(const Plan& plan, const ConvProblem& p) const;
  void size_sums(const Plan& plan);
  void size_tiles(const Plan& plan, const ConvProblem& p);
  void choose_prefetches(const Plan& plan, const ConvProblem& p);
  template <class T>
  void lay_out_scratch(const Plan& plan);
};

// Where a run of positions of a tile begins, and where its products with a tap of q = 0 go.
struct Segment {
  int64_t column, length, offset, at[kMaxAxes];
};

// A tap as a tile sees it.
enum class Meets : char { kNothing, kAll, kSome };
struct Row {
  int64_t offset;  // of its slot in the sums of a channel, moved by the shifts
  Meets meets;
};

}  // namespace ortconv::kernels::gemm_col2im

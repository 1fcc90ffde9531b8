// How a run is divided: axes, sums, work items, tiles, scratch.
//
// On an axis  y = x * s + k * d - pad.  With  k * d - pad = q * s + r  (0 <= r < s) this is  y = (x + q) * s + r: the
// sums of a dst channel are arrays over j = x + q, one for each combination of residues that taps have: the slots.
// Where no two taps or positions meet and dst is written in steps, these are over x, and what is cropped is not
// written.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/math.h"
#include "kernels/gemm_col2im/plan.h"

namespace ortconv::kernels::gemm_col2im {

// Phases that are interleaved; j of each, at least.
constexpr int64_t kMostPhases = 64, kLeastInterleaved = 8;
// Slots in order between gaps that are transposed, at least.
constexpr int64_t kLeastInRun = 4;
// Tiles of src whose copies are kept.
constexpr size_t kMostCopies = 32;
// Rows of an item, if there are so many: fewer do not pay for reading src.
constexpr int64_t kLeastRows = 48;
// Positions of a row of src: longer runs come from memory no faster.
constexpr int64_t kLongRun = 256;
// Numbers that are put together before they are written past the caches, at least.
constexpr int64_t kStaged = 4096;
// Threads that share tiles, at most, each with a slice of the scratch.
constexpr int kMostShare = 16;
constexpr int kMaxAxes = kMaxSpatial + 1;

struct Axis {
  int64_t ker, stride, dilation, pad, src_size, dst_size, src_x, dst_x;
  int64_t step, inverse, period;  // greatest common divisor g of s and d; of d / g modulo the period; s / g
  int64_t offset;                 // the pad modulo the stride
  int64_t slots;                  // least of the taps, the period, and the residues of dst that taps may have
  bool by_tap;                    // the slot of tap k is k; else it is r / g, where taps have every such residue
  bool by_position;               // j counts the positions of src that are multiplied
  int64_t x_begin, x_count;       // these
  int64_t j_count;

  // Whether the residues of the slots count up by one, but for where they begin again.
  bool in_order() const { return by_tap ? dilation == 1 : step == 1; }
  // Whether there may be residues that no tap has.
  bool has_gaps() const { return by_tap ? slots < stride : step > 1; }
  // Of the products of a tap, from a position of src to their j.
  int64_t shift_of(int64_t tap) const { return floor_div(tap * dilation - pad, stride); }
  // The slot of a residue of dst; -1 where no tap has it.
  int64_t slot_of(int64_t residue) const;
  // The residue of a slot.
  int64_t residue_of(int64_t slot) const;
  // The first position of dst of j and of those after it.
  int64_t dst_of(int64_t j) const;
};

// The tap of one axis, which advances without divisions.
struct Tap {
  int64_t k, q, residue, slot;
};

struct Geometry {
  int ndims;
  Axis axis[kMaxAxes];
  int64_t images;          // 1 where the first axis is the batch: of images so small that several share a tile
  int64_t src_end;         // elements of src from the first to the last
  bool dense;              // the positions that are multiplied are next to each other in src, and those after each
  bool direct;             // every sum is of one tap and the GEMM writes it
  bool in_dst;             // the same in dst, whose positions are those of src
  int vector_axis;         // its positions and those of the axes after it go to sums that are next to each other
  int64_t unit;            // positions of the axes after it
  int64_t inner_x;         // positions of src of one of the first axis
  int64_t slots, inner_j;  // of all axes; sums of one of the first axis in one slot

  int64_t block_channels, num_blocks;  // of dst
  int64_t slab, num_slabs;             // of j of the first axis
  int64_t slot_size, channel_size;     // sums of an item: of a slot, of a channel
  int64_t j_step;                      // from the sums of a j to those of the next one
  int64_t zeros, num_zeros;            // where in those of a channel there are zeros
  int64_t most_columns;                // positions of a tile
  int64_t tile_columns, tile_rows;     // room for so many
  bool lists_taps_once;                // for every tile
  bool has_one_tile;                   // of positions, in every part, and many taps: it is listed before the run
  bool all_depth;                      // the copy of a tile of src has all src channels
  bool narrow;                         // src of 16 bits is widened as it is read or copied, not before
  bool reads_in_place;                 // src
  int64_t src_copies, src_copy_size;   // tiles of src whose copies are kept for the next channels of dst; of one
  bool in_strips;                      // the copy of src is cut into strips, in which channels follow each other
  int64_t strip;                       // their columns, as many as a tile of the GEMM has
  bool takes_steps, in_steps;          // channels of dst can be written in steps, see steps.h; they are
  int first_in_steps;                  // the first axis that the steps are about; one before it has the images
  int64_t inner_dst;                   // numbers of dst of one position of that axis
  int64_t channels_in_steps;           // most channels of dst that are written together
  bool has_gaps;                       // there are positions of dst that no tap reaches
  int64_t most_phases_in_gaps;         // zeros among them, that are interleaved
  bool lies_far, gaps_lie_far;         // dst, see kernels/fill.h
  // The axis of the lines that are next to each other in dst, as far as any are. The axes after it have no strides:
  // their positions, so many, go together.
  int line;
  int64_t line_unit;
  bool stages_lines;   // puts lines together in a cache and writes them past the others
  int64_t num_staged;  // so many numbers at a time
  // The weights are the B operand of the GEMM, in wide panels, or single rows of them are multiplied with a single
  // position (dots). The result is transposed.
  bool wide, dots;
  bool by_rows;                     // it is not: the steps read sums that lie in a row for each position
  int64_t panel_height;             // rows of weights
  int64_t transposed_pitch;         // of that
  int64_t depth;                    // src channels that one call of the GEMM adds up
  int64_t piece;                    // products that are summed one after the other
  bool prefetches, prefetches_src;  // wide panels; src in place
  bool far_weights, near_src;       // weights that are not in L2; a src that stays there
  int64_t items;
  // Items are too few for the threads, or do not keep them all busy: these share the tiles of one item after the
  // other, so many rows and columns at a time.
  bool shares_tiles;
  int64_t shared_rows, shared_columns;

  // Byte offsets into the scratch: src in floats, packed weights, products of all tiles of an item, if they are shared,
  // then slices, one per thread. In a slice:
  size_t widened, packed, shared_products, slices, slice_bytes;
  size_t segments, rows, shifts, src, products, transposed, totals, sums, rounded, bias, gap, repeated, staged;

  Geometry(const Plan& plan, const ConvProblem& p, int threads);
  int64_t num_slices(int threads) const;
  // Channels that are written together: where there is a bias, what lies in gaps differs between channels.
  int64_t together(bool has_bias) const { return has_bias && has_gaps ? 1 : channels_in_steps; }
  // Whether the slots of an axis may be interleaved, in rows of some length, with zeros for residues that no tap has.
  bool interleaves(const Axis& a) const { return a.stride <= (a.has_gaps() ? most_phases_in_gaps : kMostPhases); }
  bool has_long_lines(size_t element_bytes) const;
  // Whether interleaved lines are written channel by channel, many at once: those of each slot of the axes before.
  bool writes_by_slots(int64_t channels, size_t element_bytes) const;
  // Whether steps write dst past the caches.
  bool writes_past_caches() const { return in_steps && lies_far; }

 private:
  void set_axes(const Plan& plan, const ConvProblem& p);
  void choose_columns(int64_t usual);
  bool prefers_wide(const Plan& plan) const;
  int64_t wide_height(const Plan& plan, const ConvProblem& p) const;
  bool is_read_in_place(const Plan& plan, int64_t row, int64_t bytes) const;
  void choose_depth(const Plan& plan, const ConvProblem& p);
  void count_items(const Plan& plan);
  int64_t shared_size(const Plan& plan) const;
  bool may_share_tiles(const Plan& plan) const;
  int64_t reach() const;
  int64_t least_slab(int64_t reaches) const;
  void size_items(const Plan& plan, int64_t least_channels);
  void cut_items(const Plan& plan, int64_t least_channels, int threads);
  void cut_slabs(const Plan& plan, int64_t wanted);
  bool has_few_rows(const Plan& plan) const;
  void divide(const Plan& plan, int threads);  // into items
  void choose_shared(const Plan& plan, int threads);
  bool measure_dst(const ConvProblem& p);
  void find_lines();
  bool should_stage_lines(const ConvProblem& p, size_t element_bytes) const;
  bool prefers_steps(const ArchFlags& arch) const;
  void crop(const Plan& plan);
  bool sums_by_rows() const;
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

// What is known of a node before its inputs, and how a run is divided.
#pragma once

#include <cstdint>

#include "base/buffer.h"
#include "kernels/sliding_rows/sliding_rows.h"
#include "kernels/sliding_rows/tile.h"

namespace ortconv::kernels::sliding_rows {

// Weights are packed in rows: [group][dst channel][src channel][taps of the axes before the last][row]. Rows of the
// operand that slides have zeros on both sides; the numbers of the other one are its factors.
struct Plan {
  Operand sliding;
  DataType dtype;
  ArchFlags arch;
  const TileKernel& kernel;
  int64_t lanes;      // of a vector
  int64_t g, ic, oc;  // channels per group
  int64_t outer_taps, ker, shift;
  int64_t margin, pitch;  // zeros on each side of a row of weights, and the distance between rows
  Buffer packed;          // empty when the weights are not constant

  Plan(Operand sliding, const ConvProblem& static_part, DataType dtype, const ArchFlags& arch);

  int64_t weights_channel() const { return outer_taps * pitch; }  // between src channels
  int64_t weights_dst_channel() const { return ic * weights_channel(); }
  int64_t packed_size() const { return g * oc * weights_dst_channel(); }
};

// Packs the weights of a dst channel, counted over all groups, into `packed`, the start of the array.
void pack_weights(const Plan& plan, const ConvProblem& static_part, const void* wei, int64_t channel, void* packed);

// Tiles of dst.
struct Tiling {
  int64_t rows, vectors;
  double steps;  // of a tile and a pair of rows, on the average
  double time;   // of a row of dst and a pair of rows, in multiply-adds of vectors
};

// Steps at which the rows of a tile meet.
struct Steps {
  int64_t first, count;
};

struct Geometry {
  int64_t length, steps;  // of a row that slides, without zeros; of a row of factors
  bool rows_are_images;   // those of a tile; else dst channels of a group
  bool shares_sliding;    // all rows of a tile have the same row that slides
  int64_t row_count;      // images or channels
  int64_t others;         // the other of both
  Tiling tiling;
  int64_t row_tiles;
  int64_t columns, num_columns;  // of a block of columns, and how many there are
  int64_t dst_rows;              // of one channel of an image
  bool rows_first;               // a tile computes all rows of dst before the next tile does
  int64_t piece;                 // products that are summed one after the other
  int64_t channels_together;     // whose products are summed before they are added to those of the channels before
  int64_t most_lines;            // pairs of rows that meet in a row of dst, of one channel
  bool direct;                   // tiles are written to dst
  bool copies_src;               // else rows of src lie as those of the copy would
  int64_t src_margin, src_pitch, src_channel, src_image;
  int64_t items;

  // Byte offsets into the scratch: packed weights, the copy of src, pairs along each axis, then slices, one per thread.
  // In a slice: the pairs of a row of dst, the steps of each tile of a block of columns, sums, and those of some
  // channels.
  size_t packed, src, pairs, begins, slices, slice_bytes;
  size_t lines, steps_of_tiles, sums, partial;

  Geometry(const Plan& plan, const ConvProblem& problem);
  int64_t num_slices(int threads) const;
};

}  // namespace ortconv::kernels::sliding_rows

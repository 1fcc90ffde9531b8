// Shared by the driver and the stages before and after the products.
#pragma once

#include "kernels/winograd/geometry.h"

namespace ortconv::kernels::winograd {

// One block of tiles of one group.
struct Block {
  int64_t group, batch_begin, batch_count;
  int64_t begin[kMaxAxes], count[kMaxAxes];  // tiles of every residue
  int64_t row[kMaxAxes];                     // columns from a tile of this axis to the next
  int64_t columns;                           // all together
  int64_t multiplied;                        // those that any output needs
};

template <class T>
struct Run {
  const Plan& plan;
  const ConvProblem& problem;
  const Geometry geometry;
  const T* src;
  const T* bias;
  T* dst;
};

// A row of dst, as seen from the planes of the results.
struct DstRow {
  int64_t plane;   // offset of its first tile
  int64_t offset;  // into dst, without the channel
};

// Transforms the src of a block for a unit, to the beginning of the slice: [point][src channel][column]. Returns the
// bits of the largest magnitude that was read.
template <class T>
uint32_t transform_source(const Run<T>& run, const Unit& unit, const Block& block, char* slice);

// Lists the rows inside dst of every outer class of the unit, one class after the other: Geometry::dst_rows, and
// dst_row_counts of each.
void list_rows(const Plan& plan, const Geometry& geometry, const ConvProblem& problem, const Unit& unit,
               const Block& block, char* slice);

// Transforms the products of one block of dst channels, [family][point][dst channel][class][column], and writes dst.
template <class T>
void write_results(const Run<T>& run, const Unit& unit, const Block& block, int64_t oc_begin, int64_t oc_count,
                   char* slice);

}  // namespace ortconv::kernels::winograd

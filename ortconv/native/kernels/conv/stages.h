// Shared by the driver and its stages, from the copy of src to the tiles of dst.
#pragma once

#include "kernels/conv/geometry.h"

namespace ortconv::kernels {

// One block of positions of one group.
struct Block {
  int64_t group;
  int64_t batch_begin, batch_count;
  int64_t begin[kMaxSpatial], count[kMaxSpatial];
};

// A run of positions of one row inside a tile.
struct Segment {
  int64_t column, length;
  int64_t batch, position[kMaxSpatial];
};

template <class Cell>
struct GatherBuffers {
  int64_t* sources;  // one entry per row of the grid, filled by list_sources
  Cell* lines;       // kLines * line_capacity cells
};

// For every row of the grid of the axes before the last, [plane][image][grid axes]: the offset into src of the row it
// holds, or a mark that it is zero. The same for every group and channel.
void list_sources(const Plan& plan, const Geometry& geometry, const ConvProblem& problem, const Block& block,
                  int64_t* sources);

// Copies the src of a block into `grid`, widened to what sums are formed in: [channel][plane][image][grid axes].
template <class T>
void gather(const Plan& plan, const Geometry& geometry, const ConvProblem& problem, const Block& block, const T* src,
            const GatherBuffers<Sum<T>>& buffers, Sum<T>* grid);

template <class T>
struct Scatter {
  const Plan& plan;
  const Geometry& geometry;
  const ConvProblem& problem;
  const int64_t* phases;  // filled by fill_phases
  const Sum<T>** rows;    // room for one pointer per phase of the last axis
};

// Writes the tile of `unit` for dst channels [oc_begin, oc_begin + oc_count), counted over all groups, with the bias
// added and then rounded to T.
// The tile is [dst channel][class of the unit][columns].
template <class T>
void scatter(const Scatter<T>& s, const Unit& unit, const Segment* segments, int64_t num_segments, const Sum<T>* tile,
             int64_t oc_begin, int64_t oc_count, const Sum<T>* bias, T* dst);

// Phase of each class of each axis, one axis after the other.
void fill_phases(const Plan& plan, const Geometry& geometry, const ConvProblem& problem, int64_t* phases);

// Lists the runs of positions of dst among the cells [begin, end) of the grid of a block.
int64_t list_segments(const Plan& plan, const Geometry& geometry, const Block& block, int64_t begin, int64_t end,
                      Segment* segments);

// The bias in the type of sums; 16-bit elements are widened into `room`.
template <class T>
const Sum<T>* widened_bias(const T* bias, int64_t count, Sum<T>* room);

// Activates a tile of so many columns in place, then scatter().
template <class T>
void write_tile(const Scatter<T>& s, const Unit& unit, const Segment* segments, int64_t num_segments, int64_t columns,
                Sum<T>* tile, int64_t oc_begin, int64_t oc_count, const Sum<T>* bias, T* dst);

}  // namespace ortconv::kernels

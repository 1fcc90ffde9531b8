// Shared by the driver and its gather and scatter stages.
#pragma once

#include "kernels/conv_transpose/geometry.h"

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

struct GatherBuffers {
  int64_t* sources;  // one entry per row of the grid, filled by list_sources
  float* lines;      // kLines * line_capacity floats
};

// For every row of the grid of the axes before the last, [plane][image][grid axes]: the offset into src of the row it
// holds, or a mark that it is zero. The same for every group and channel.
void list_sources(const Plan& plan, const Geometry& geometry, const ConvProblem& problem, const Block& block,
                  int64_t* sources);

// Copies the src of a block into `grid`: [channel][plane][image][grid axes].
void gather(const Plan& plan, const Geometry& geometry, const ConvProblem& problem, const Block& block,
            const float* src, const GatherBuffers& buffers, float* grid);

struct Scatter {
  const Plan& plan;
  const Geometry& geometry;
  const ConvProblem& problem;
  const int64_t* phases;  // phase of each class of each axis, one axis after the other
  const float** rows;     // room for one pointer per phase of the last axis
};

// Writes the tile of `unit` for dst channels [oc_begin, oc_begin + oc_count), counted over all groups, bias added.
// The tile is [dst channel][class of the unit][columns].
void scatter(const Scatter& s, const Unit& unit, const Segment* segments, int64_t num_segments, const float* tile,
             int64_t oc_begin, int64_t oc_count, const float* bias, float* dst);

}  // namespace ortconv::kernels

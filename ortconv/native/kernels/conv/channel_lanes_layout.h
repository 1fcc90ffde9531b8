// What a run of channel_lanes.cc knows before it begins: positions, blocks, scratch layout.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/conv/depthwise_layout.h"

namespace ortconv::kernels::channel_lanes {

// What a tap of an axis does, see DepthwiseAxis.
struct AxisTap {
  int64_t shift, cls;
};

// The positions of a row of dst of one class, in a block.
struct ClassPositions {
  int64_t count;
  int64_t src, dst;      // offsets of the first one, from the beginnings of a row of the copy of src and of the tile
  int64_t steps, first;  // taps, and where they are listed
};

// An item is a block of channels of one image, in some positions of every axis.
struct Layout {
  int last;
  DepthwiseAxis axis[kMaxSpatial];
  int64_t lanes, channel_blocks;
  int64_t taps, outer_taps;
  bool in_twos;       // whether rows of dst are summed in twos
  int64_t most_rows;  // of src that these read
  int64_t pitch;      // positions of a row of the copy of src
  int64_t tile;       // positions of dst whose sums there is room for
  int64_t num_blocks, num_items, num_slices;
  int64_t copy_bytes;
  // Byte offsets into the scratch, which holds a slice per thread.
  size_t slice_rows, slice_weight_rows, slice_axis_taps, slice_steps, slice_classes, slice_bias, slice_weights,
      slice_copy, slice_tile, slice_size;

  Layout(const Plan& plan, const ConvProblem& p, int threads);
};

}  // namespace ortconv::kernels::channel_lanes

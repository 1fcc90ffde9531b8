// The kernels' arguments, as the host fills them in and the device reads them. Part of every program's text, so it
// includes nothing.
#pragma once

#ifdef __CUDACC__
#define ORTCONV_BOTH __host__ __device__
#else
#define ORTCONV_BOTH
#endif

namespace ortconv {
namespace cuda {

constexpr int kMaxAxes = 6;

// One spatial axis. All in elements.
struct Axis {
  long long src_size, dst_size, ker, stride, dilation, pad;
  long long src_step, wei_step, dst_step;  // memory strides
  long long tap_period;                    // transposed: taps that reach the same output are this far apart
};

// What integers of 8 bits mean: those of X (code - x_zero) * x_scale, and those of W in output channel c
// (code - w_zero[c]) * w_scale[c], where c counts by `w_step`. No zero points are zeros.
struct Quantization {
  const float* x_scale;
  const float* w_scale;
  const void* x_zero;
  const void* w_zero;
  long long w_step;
};

// A complete problem over tensors of any strides.
struct Problem {
  const void* src;
  const void* wei;
  const void* bias;  // or null
  void* dst;
  long long mb, groups, icg, ocg;  // channels of a group
  long long src_n, src_c;
  long long wei_g, wei_ic, wei_oc;
  long long dst_n, dst_c;
  Axis axis[kMaxAxes];
  int ndims;
  int transposed;
  int channels_last;  // of dst: in which order its elements are visited
  float slope, minimum, maximum;
  Quantization quantization;  // where src and wei are integers
};

// dst[i] += residual[i], activated.
struct Add {
  const void* residual;
  void* dst;
  long long count;
  float slope, minimum, maximum;
};

// What follows describes a convolution as matrix products.
//
// On each axis output y = j * y_step + y_first + r comes of position j and phase r. A transposed convolution has a
// phase for every residue of the stride: with k * dilation = q * stride + r, tap k adds to phase r what src has at the
// position's own place minus q. So a tap is a phase and a shift q, and no product has a zero that was put between the
// elements of src. A (forward) convolution has one phase, and its shifts are its taps.
//
// The rows of the product are output channels in every phase, its columns are positions (of all images), and it sums
// over shifts and input channels. Rows go by granules of 16. Where every phase has a tap at every shift (`uniform`),
// the rows are [phases of the axes but the last][channel][phase of the last axis] without gaps. Otherwise each phase of
// the axes but the last has a list of rows and shifts of its own, a granule is 16 channels of one phase, its list is
// [16 channels][phase of the last axis], and a shift says which phases of the last axis have a tap there.
//
// The sum goes by steps of 64 bytes, which are four chunks of 16 bytes: input channels of one shift.

constexpr int kGranule = 16;
constexpr int kChunkBytes = 16;
constexpr int kChunks = 4;  // of a step
constexpr int kBlockBytes = kGranule * kChunks * kChunkBytes;

struct Shift {
  int delta[kMaxAxes];  // of the src position
  unsigned phases;      // of the last axis: those that have a tap here; all, where uniform
  int unused;
};

// What stands at the beginning of packed weights. Shifts follow, [list][shifts], where they are integers the sum of
// each output channel's, then at `weights` the blocks of a step of a granule, [group][list][granule][step].
struct PackedHeader {
  unsigned is_unsuitable;  // has infinities or NaN, whose products with the zeros around src are not zero; or integers
                           // that have more than 8 bits without their zero point
  unsigned unused[63];
};

struct Pack {
  const void* wei;
  unsigned char* packed;
  long long weights, row_sums;  // byte offsets
  long long chunks_total;
  long long wei_g, wei_ic, wei_oc, wei_step[kMaxAxes];
  Quantization quantization;
  int groups, icg, ocg, ndims;
  // Of phases and shifts; a convolution has stride 1 and dilation 1 here.
  int ker[kMaxAxes], stride[kMaxAxes], dilation[kMaxAxes];
  int delta[kMaxAxes];  // src positions per shift
  int uniform, lists, granules, shifts, chunks, steps;
};

// Divides numbers below 2^31 by multiplication: the high half of n * factor, plus n, shifted.
struct Divisor {
  unsigned divisor, factor, shift;
};

struct PositionAxis {
  long long src_step;         // in chunks, or in elements
  int count;                  // positions
  int src_size;               //
  int src_first, src_stride;  // src position = src_first + position * src_stride + Shift::delta
  int dst_first, dst_stride;  // dst position = dst_first + position * dst_stride + phase
  int phases;
  Divisor by_count, by_phases;
};

struct Gemm {
  Problem problem;  // as it is, for what the products do not take
  const unsigned char* src;
  const unsigned char* packed;
  void* partial;  // sums of a part of the steps, [split][tile][sum of a thread][thread]
  long long weights, row_sums;
  long long src_n, src_g, src_c;  // in the units of src_step
  PositionAxis axis[kMaxAxes];
  int positions;   // of all images
  int src_chunks;  // of one shift: those that src has
  int chunks;      // and those that are packed
  int shifts_of_step, chunks_of_step;
  int shifts, steps, granules, lists, groups, uniform;
  int tiles_m, tiles_n, splits;
  Divisor by_tiles, by_tiles_m, by_tiles_n, by_lists, by_channels;  // tiles: all of them; channels: of dst, of a group
};

// The shared memory of a block that computes a tile: the steps under way, in whose place the results are put in order
// afterwards, and tables of where rows and columns go.
//
// Results are put into lines, which are written one after the other by pairs of neighbours. With dst_channels a line
// has the rows of a column, the channels of a phase together. Otherwise it has the columns of `together` rows, which
// are the phases of a channel, so that it runs along the last axis of dst. Lines are a few banks apart.

ORTCONV_BOTH constexpr int passes_of(int element_bytes, int rows, int columns) {
  return element_bytes == 4 && rows * columns > 8192 ? 2 : 1;
}
ORTCONV_BOTH constexpr int pitch_of_lines(int element_bytes, int rows, int columns, int together, bool dst_channels) {
  return (dst_channels ? rows : columns / passes_of(element_bytes, rows, columns) * together) +
         (dst_channels ? 16 : 16 * together) / element_bytes;
}
ORTCONV_BOTH constexpr int staging_bytes(int element_bytes, int rows, int columns, int together, bool dst_channels) {
  return (dst_channels ? columns / passes_of(element_bytes, rows, columns) : rows / together) *
         pitch_of_lines(element_bytes, rows, columns, together, dst_channels) * element_bytes;
}
ORTCONV_BOTH constexpr int tables_bytes(int axes, int rows, int columns, bool integers) {
  return (rows + columns) * (8 + 4 * axes + 4) + (integers ? rows * 8 : 0);
}
ORTCONV_BOTH constexpr int tensor_stage_bytes(int rows, int columns) {
  return (rows + columns) * kChunks * kChunkBytes;
}
ORTCONV_BOTH constexpr int float_stage_bytes(int rows, int columns) {
  return (rows + columns + 4) * kChunks * kChunkBytes;
}

// A copy of src with the channels of a position together, [mb][position][group][chunks]. Integers are copied with the
// padding around them, of which they are the zero point, so that products need not leave it out.
struct Gather {
  const void* src;
  unsigned char* dst;
  const void* x_zero;  // of integers, or null
  long long src_n, src_c, src_step[kMaxAxes];
  long long size[kMaxAxes];                     // with the padding
  long long src_size[kMaxAxes], pad[kMaxAxes];  // without, and in front
  long long positions;                          // of all images
  int icg, groups, chunks, ndims;
};

// Groups of few channels. A unit is a segment of a row, or of as many rows as a warp takes at once: of the positions of
// the last axis, for one output place on the axes before it. On each axis tap k = phase + i * tap_step reads src at
// `first - i * dilation` or, in a convolution, `first + i * dilation`.
struct Depthwise {
  Problem problem;
  int position_first, positions;  // of the last axis
  int segment_positions;
  int rows, units;    // of an image
  int row_lanes;      // of a warp, that share a row, where lanes are positions
  int blocks;         // that share the units of an image and a channel or 32 channels
  int channel_tiles;  // of an image
  int taps;           // of all axes
  Divisor by_segments, by_dst_size[kMaxAxes], by_stride[kMaxAxes], by_dilation[kMaxAxes];
};

}  // namespace cuda
}  // namespace ortconv

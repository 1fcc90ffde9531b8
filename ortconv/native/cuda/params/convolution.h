// Arguments of the convolution kernels, shared by host and device. NVRTC compiles this header without any other, so it
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

// One spatial axis. Sizes and strides are in elements.
struct Axis {
  long long src_size, dst_size, ker, stride, dilation, pad;
  long long src_step, wei_step, dst_step;  // memory strides
  long long tap_period;                    // transposed: taps that reach the same output are this far apart
};

// How 8-bit integers are dequantized: X as (x - x_zero) * x_scale, W in output channel c as
// (w - w_zero[c * w_zero_step]) * w_scale[c * w_scale_step]. A null zero point is 0.
struct Quantization {
  const float* x_scale;
  const float* w_scale;
  const void* x_zero;
  const void* w_zero;
  long long w_scale_step, w_zero_step;
};

// How sums become 8-bit integers: v = sum * scale + bias + (residual - residual_zero) * residual_scale; then, behind
// the activation, v * max(0, min(1, v * alpha + beta)); then v * factor + addend; then v / y_scale, rounded half to
// even, plus y_zero, which saturates. Null: without that operation.
struct QuantizedResult {
  const float* biases;   // of each element of an image, as dst lies, in place of the bias of channels
  const void* residual;  // as dst lies, and of its type
  const float* residual_scale;
  const void* residual_zero;
  const float* factor;  // of each output channel, as addend
  const float* addend;
  const float* y_scale;
  const void* y_zero;
};

// A complete convolution over tensors with any strides.
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
  int channels_last;  // dst has its channels innermost: decides the order in which its elements are visited
  float slope, minimum, maximum;
  float alpha, beta;          // where dst is integers
  Quantization quantization;  // where src and wei are integers
  QuantizedResult result;     // where dst is
};

// dst[i] = activation(dst[i] + residual[i]).
struct Add {
  const void* residual;
  void* dst;
  long long count;
  float slope, minimum, maximum;
};

// The rest describes a convolution as an implicit GEMM.
//
// Output phases: on each axis, output y = j * y_step + y_first + r belongs to position j and phase r. A transposed
// convolution has one phase for every residue of the stride. With k * dilation = q * stride + r, tap k adds
// src[position - q] to phase r. A tap is therefore a phase r and a shift q, and no product multiplies a zero that was
// inserted between elements of src. A (forward) convolution has one phase, and its shifts are its taps.
//
// The rows of the GEMM are output channels in every phase, its columns are the positions of all images, and it sums
// over shifts and input channels. Rows form panels of 16. Where every phase has a tap at every shift (`uniform`), rows
// are numbered [phases of the axes but the last][channel][phase of the last axis] without gaps. Otherwise each phase of
// the axes but the last has its own list of rows and shifts, a panel is 16 channels of one phase, rows are numbered
// [16 channels][phase of the last axis], and a shift says which phases of the last axis have a tap there.
//
// The sum advances by steps of 64 bytes. A step is four chunks of 16 bytes; a chunk is input channels of one shift.

constexpr int kPanelRows = 16;
constexpr int kChunkBytes = 16;
constexpr int kChunks = 4;  // of a step
constexpr int kBlockBytes = kPanelRows * kChunks * kChunkBytes;

struct Shift {
  int delta[kMaxAxes];  // of the src position
  unsigned phases;      // of the last axis: those that have a tap here; all, where uniform
  int unused;
};

// The header of packed weights. After it lie the shifts, [list][shifts]; for integer weights the sum of each row's
// weights, [group][list][panel][row]; and, at offset Pack::weights, one block for each step of a panel,
// [group][list][panel][step].
struct PackedHeader {
  // Set where the weights hold infinities or NaN, whose products with padding zeros are not zero, or integers that need
  // more than 8 bits once their zero point is subtracted. The kernels then fall back to direct convolution.
  unsigned is_unsuitable;
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
  // Of phases and shifts; for a (forward) convolution, stride and dilation are 1 here.
  int ker[kMaxAxes], stride[kMaxAxes], dilation[kMaxAxes];
  int delta[kMaxAxes];  // src positions per shift
  int uniform, lists, panels, shifts, chunks, steps;
};

// Divides n < 2^31 without a division: (high half of n * factor + n) >> shift.
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
  Problem problem;  // for direct convolution, where packed weights are unsuitable
  const unsigned char* src;
  const unsigned char* packed;
  void* partial;  // split-K sums, [split][tile][sum of a thread][thread]
  long long weights, row_sums;
  long long src_n, src_g, src_c;  // in the units of src_step
  PositionAxis axis[kMaxAxes];
  int positions;   // of all images
  int src_chunks;  // of one shift, in src
  int chunks;      // of one shift, in the packed weights
  int shifts_of_step, chunks_of_step;
  int shifts, steps, panels, lists, groups, uniform;
  int tiles_m, tiles_n, splits;
  Divisor by_tiles, by_tiles_m, by_tiles_n, by_lists, by_channels;  // tiles: all of them; channels: of dst, of a group
};

// Shared memory of a block that computes a tile: the pipeline's stages, reused by the epilogue to reorder results, and
// tables of the offsets of rows and columns in dst.
//
// The epilogue stages results as lines and writes each line in pairs of elements. With dst_channels a line is the rows
// of one column, the channels of a phase adjacent. Otherwise it is the columns of `together` rows, the phases of one
// channel, so that it runs along the last axis of dst. The pitch of lines avoids bank conflicts.

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
ORTCONV_BOTH constexpr int tables_bytes(int axes, int rows, int columns, bool integers, bool quantized) {
  return (rows + columns) * (8 + 4 * axes + 4) + (integers ? rows * 8 : 0) + (quantized ? (rows + columns) * 8 : 0);
}
ORTCONV_BOTH constexpr int tensor_stage_bytes(int rows, int columns) {
  return (rows + columns) * kChunks * kChunkBytes;
}
ORTCONV_BOTH constexpr int float_stage_bytes(int rows, int columns) {
  return (rows + columns + 4) * kChunks * kChunkBytes;
}

// Copies src to a channels-last layout, [mb][position][group][chunks]. The copy of integers includes all positions
// outside src that the GEMM reads, filled with the zero point of X, so that the GEMM need not treat them apart.
struct Gather {
  const void* src;
  unsigned char* dst;
  const void* x_zero;  // of integers, or null
  long long src_n, src_c, src_step[kMaxAxes];
  long long size[kMaxAxes];                     // of the copy
  long long src_size[kMaxAxes], pad[kMaxAxes];  // of src, and positions of the copy before it; negative: left out
  long long positions;                          // of all images
  int icg, groups, chunks, ndims;
};

// Depthwise convolution and groups of few channels. A row is the positions of the last axis for one output index on the
// other axes; a unit of work is a segment of one row, or of as many rows as a warp computes at once. On each axis tap
// k = phase + i * tap_step reads src at `first - i * dilation` (transposed) or `first + i * dilation`.
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

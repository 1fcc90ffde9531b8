// What a kernel for convolutions of 8-bit integers supplies: a few functions in a file named after its ISA, and one row
// in kernels.inc.
//
// A lane of 32 bits holds numbers of `depth` channels: either four bytes, which are multiplied by signed bytes, or two
// 16-bit integers whose zero points are already subtracted. Sums of 32 bits wrap; nothing saturates but where
// IntegerConvKernel says so.
#pragma once

#include <cstdint>
#include <vector>

#include "base/arch.h"
#include "kernels/integer_result/integer_result.h"

namespace ortconv::kernels {

// A vector of outputs, which are neighbours in the arranged source. Lanes that are no outputs hold garbage; the outputs
// are contiguous in y.
struct PositionVector {
  int64_t src, dst;  // of lane 0, and of the first output
  uint32_t lanes;    // mask of the outputs
  int32_t count;     // of outputs
};

// y = float(sum + correction - zero * (sum of x)) * scale + bias. The product may be rounded before the bias is added,
// or not.
struct IntegerChannel {
  int32_t correction, zero;
  float scale, bias;
};

// What of a lane of weights is not in the panel: a kernel that saturates adds the products of this afterwards.
struct IntegerExcess {
  int64_t offset;  // in src
  uint32_t weights;
};

// Where the results of tiles go as bytes, for all lanes: vector j of row r is at y + r * y_stride + j * lanes, and so
// are biases.
struct IntegerTileResults {
  const IntegerResultArgs* rows;  // without residuals; the same but for scale, bias, biases, factor and addend
  bool is_plain;                  // in each row
  ResultType type;
  unsigned char* y;
  int64_t y_stride;
};

// Computes y[r][dst...] of `rows` channels for vectors of outputs. Sums over all `blocks` lanes of channels of the
// group.
struct IntegerTileArgs {
  const uint32_t* src;  // [blocks][block_stride]; no alignment is needed
  int64_t block_stride, blocks;
  const int64_t* taps;  // the offset in src of each tap of the filter
  int64_t tap_count;
  const PositionVector* positions;
  int64_t count;                   // of vectors; a tile has as many as the kernel's vectors, and fewer at the end
  const uint32_t* weights;         // [tap][block][kernel's rows]
  int rows;                        // 1..kernel's rows
  const IntegerChannel* channels;  // one for each
  const int32_t* sums;             // of x, [count][lanes]; null where no channel needs them
  float* y;
  int64_t y_stride;
  // For kernels that saturate, [excess_count][kernel's rows]; those that a row does not need have weights of 0.
  const IntegerExcess* excess;
  int64_t excess_count;
  const IntegerTileResults* results;  // in the place of y, for kernels that store them; null: none
};

// The same for one channel of a depthwise convolution, whose numbers are contiguous in src. A lane of weights holds
// four neighbouring taps (bytes), or one tap (16-bit integers).
struct IntegerDepthwiseArgs {
  const void* src;
  int step;                // 1 or 2: how far apart in src the numbers of two lanes begin
  const int64_t* windows;  // the offset in src of the first of these taps
  int64_t window_count;
  const PositionVector* positions;
  int64_t count;
  const uint32_t* weights;  // of each window
  const uint32_t* ones;     // the same, with 1 in the place of every weight; null where channel.zero is 0
  IntegerChannel channel;
  float* y;
};

// How bytes of x become numbers of a lane: (byte ^ flip) of four bytes, (byte ^ flip) - zero of two integers. flip is
// 0x80 where they are signed.
struct IntegerShift {
  uint8_t flip;
  int32_t zero;  // of the flipped bytes
};

// A copy of at most one vector of neighbours in the arranged source.
struct IntegerCopy {
  int64_t src, dst;  // of the first element that is not padding, and of lane 0
  uint32_t lanes;    // mask of the lanes that are not padding
  int32_t count;     // of these lanes; their elements are a stride apart in the source
  int32_t stored;    // lanes to write, including padding
  int32_t lead;      // lanes of padding before the others; negative where padding is in between, or all there is
};

struct IntegerCopyArgs {
  const uint8_t* const* channels;  // of the source: those of a lane
  const IntegerCopy* copies;
  int64_t count;
  int64_t stride;
  int64_t size;  // of a channel
  IntegerShift shift;
  void* out;
};

struct IntegerConvKernel {
  const char* name;
  int lanes, depth;
  int rows, vectors;  // most of a tile
  void (*tiles)(const IntegerTileArgs&);
  // The sums of x that a tile needs, from weights of 1 for one row; null where zero points are subtracted earlier.
  void (*sums)(const IntegerTileArgs&, int32_t* out);
  void (*depthwise)(const IntegerDepthwiseArgs&);
  // Writes lanes that hold a number of each of `depth` channels, the first channel in the lowest bits. Padding is the
  // converted zero point.
  void (*interleave)(const IntegerCopyArgs&);
  // Writes the numbers of one channel, a quarter or half of a lane each. May write a whole vector at the last `dst`.
  void (*widen)(const IntegerCopyArgs&);

  // Whether tiles take IntegerTileResults.
  bool stores_results;

  // Whether products of bytes are added in pairs of 16 bits, which saturate: two weights of a pair that have one sign
  // must not exceed 128 together.
  bool saturates;

  bool takes_bytes() const { return depth == 4; }
};

// The best kernel for these flags that does not saturate; the portable one when no other fits.
const IntegerConvKernel& get_integer_conv_kernel(const ArchFlags& arch);

// A kernel that saturates and is faster than that one, where few weights exceed; null where there is none. It computes
// tiles alone.
const IntegerConvKernel* get_saturating_integer_conv_kernel(const ArchFlags& arch);

}  // namespace ortconv::kernels

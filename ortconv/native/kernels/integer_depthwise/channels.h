// Depthwise convolutions of 8-bit integers to the 8-bit results that integer_result.h describes, sixteen channels at a
// time: each has a lane of four neighbouring taps. Images are computed in tiles, whose source is transposed from
// channels to lanes, and whose results are transposed back.
//
// A new kernel supplies the function of IntegerChannelsKernel in a file named after its ISA, and a line in
// get_integer_channels_kernel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/arch.h"
#include "base/parallel.h"
#include "base/problem.h"
#include "kernels/integer_conv/result.h"

namespace ortconv::kernels {

constexpr int64_t kChannelLanes = 16, kTapsOfLane = 4;

// An axis of a tile: that of rows or that of columns.
struct IntegerChannelsAxis {
  int64_t size;     // of the source
  int64_t first;    // position of the source that the first tap of the first output reads; may be in the padding
  int64_t outputs;  // of the tile
  int64_t stride, dilation;
};

// The outputs of a tile for a block of channels.
struct IntegerChannelsTile {
  IntegerChannelsAxis rows, columns;
  int64_t tap_rows, tap_columns;
  const uint8_t* x;                                  // of the first channel
  int64_t x_stride, channels;                        // from a channel to the next; 1 to kChannelLanes
  uint8_t flip, zero;                                // numbers are x ^ flip, as unsigned bytes; padding, before that
  const int8_t* weights;                             // [tap_rows][windows()][kChannelLanes][kTapsOfLane]
  const int32_t* corrections;                        // of each channel, as what follows: is added to each sum
  const float *scales, *biases, *factors, *addends;  // kChannelLanes of each
  const IntegerResultArgs* result;                   // what the channels have in common
  ResultType type;                                   // of bytes
  bool is_plain;                                     // of each channel
  unsigned char* y;                                  // the first output of the first channel
  const float* element_biases;                       // of the same, and as y lies, in the place of `biases`; null: none
  int64_t y_stride, y_row;                           // from a channel to the next, and from a row
  // Scratch: the lanes of the source, the source of a row with its channels side by side, and where each output reads.
  uint32_t* lanes;
  uint8_t* row;
  int32_t* offsets;

  // Lanes of taps in a row of the filter.
  int64_t windows() const { return (tap_columns - 1) / kTapsOfLane + 1; }
  // Positions of a row that have lanes, `step()` apart in the source.
  int64_t step() const;
  int64_t positions() const { return ((columns.outputs - 1) * columns.stride + reach()) / step() + 1; }
  // Numbers of a row of the source that taps read, and those that lanes hold: taps behind the last are 0.
  int64_t numbers() const { return (columns.outputs - 1) * columns.stride + (tap_columns - 1) * columns.dilation + 1; }
  int64_t held_numbers() const { return (positions() - 1) * step() + (kTapsOfLane - 1) * columns.dilation + 1; }
  int64_t source_rows() const { return (rows.outputs - 1) * rows.stride + (tap_rows - 1) * rows.dilation + 1; }

 private:
  int64_t reach() const { return (windows() - 1) * kTapsOfLane * columns.dilation; }
};

struct IntegerChannelsKernel {
  const char* name;
  void (*tile)(const IntegerChannelsTile&);
};

// The kernel for these flags; null where there is none.
const IntegerChannelsKernel* get_integer_channels_kernel(const ArchFlags& arch);

// The weights, packed.
class IntegerChannelsWeights {
 public:
  // None where channels have several outputs each, for more than two axes, or where a weight less its zero point does
  // not fit into a byte. `problem` holds what weight_problem() sets.
  static std::optional<IntegerChannelsWeights> make(const ConvProblem& problem, const IntegerConvFilter& filter);
  static bool takes(const ConvProblem& problem);
  // Lanes of taps of a channel.
  static int64_t lanes(const ConvProblem& problem);

  // Whether the lanes of a row of outputs fit into little memory.
  bool supports(const ConvProblem& problem) const;

 private:
  friend class IntegerChannelsDriver;

  std::vector<int8_t> weights_;  // [blocks of channels], and each as in a tile
  std::vector<int32_t> sums_;    // of the weights of each channel, with those that fill the last block
};

// `problem` has outputs, and the weights support it; the result is of bytes, without residual.
// `scratch` is 64-byte aligned and has integer_channels_scratch_bytes.
void integer_channels_result(const ConvProblem& problem, const IntegerChannelsWeights& weights,
                             const IntegerChannelsKernel& kernel, const IntegerResultOperands& operands, void* scratch,
                             const Parallel& parallel);
size_t integer_channels_scratch_bytes(const ConvProblem& problem, int threads);

}  // namespace ortconv::kernels

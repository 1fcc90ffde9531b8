// Depthwise convolutions of 8-bit integers to the results that integer_result.h describes, row by row. The source of a
// channel is widened to 16 bits with its padding, some rows at a time, and neighbouring taps are multiplied in pairs.
//
// A new kernel supplies the functions of IntegerDepthwiseKernel in a file named after its ISA, and one row in
// kernels.inc. Where there is none, integer_conv.h computes depthwise convolutions, too.
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

// Rows of one channel of the source, which are widened with their padding.
struct IntegerDepthwiseSource {
  const uint8_t* x;
  int64_t x_stride, rows;
  int64_t count, before;  // numbers of a row that are not padding, and padding in front of them
  uint8_t flip;           // numbers are x ^ flip, as unsigned bytes
  int16_t zero;           // padding
  int16_t* out;
  int64_t pitch;  // numbers of a row in `out`, padding included
};

// Rows of outputs of one channel.
struct IntegerDepthwiseRows {
  static constexpr int64_t kReadBeyond = 128;  // numbers behind the last one that an output needs

  const int16_t* src;       // of the first output
  int64_t src_stride;       // from a row of outputs to the next, in src
  int step;                 // 1 or 2: from an output to the next, in src
  const int64_t* windows;   // the offset of each pair of neighbouring numbers
  const uint32_t* weights;  // of each pair, that of its first number in the lower half
  int64_t window_count;
  int32_t correction;        // is added to each sum
  int64_t rows, width;       // of outputs, which are contiguous
  IntegerResultArgs result;  // what becomes of the sums, which lie nowhere; `y` and `biases` are those of all rows
  ResultType type;
};

struct IntegerDepthwiseKernel {
  const char* name;
  void (*widen)(const IntegerDepthwiseSource&);
  void (*rows)(const IntegerDepthwiseRows&);
};

// The best kernel for these flags; null where there is none.
const IntegerDepthwiseKernel* get_integer_depthwise_kernel(const ArchFlags& arch);

// The weights, packed.
class IntegerDepthwiseWeights {
 public:
  // Whether a convolution is of this kind. `problem` holds what weight_problem() sets, here and below.
  static bool takes(const ConvProblem& problem);
  // Pairs of neighbouring taps.
  static int64_t window_count(const ConvProblem& problem);
  // None for convolutions of other kinds.
  static std::optional<IntegerDepthwiseWeights> make(const ConvProblem& problem, const IntegerConvFilter& filter);

  // Whether a channel's rows fit into little memory.
  bool supports(const ConvProblem& problem) const;

  int64_t windows() const { return static_cast<int64_t>(windows_.size()); }

 private:
  friend class IntegerDepthwiseDriver;

  struct Window {
    int64_t row, column;  // of its first tap
  };

  std::vector<Window> windows_;
  std::vector<uint32_t> weights_;  // [oc][windows]
  std::vector<uint32_t> sums_;     // of the weights of each output channel, wrapping
};

// `problem` has outputs, and the weights support it. `scratch` is 64-byte aligned and has
// integer_depthwise_scratch_bytes.
void integer_depthwise_result(const ConvProblem& problem, const IntegerDepthwiseWeights& weights,
                              const IntegerDepthwiseKernel& kernel, const IntegerResultOperands& operands,
                              void* scratch, const Parallel& parallel);
size_t integer_depthwise_scratch_bytes(const ConvProblem& problem, int threads);

}  // namespace ortconv::kernels

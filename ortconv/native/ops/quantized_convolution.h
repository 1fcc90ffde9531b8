// One node's convolution of 8-bit integers, in either direction, by the implementation that is fastest: in integers, or
// in floats where these are exact. All give the same results.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/arch.h"
#include "base/parallel.h"
#include "base/problem.h"
#include "kernels/integer_conv/transposed.h"
#include "kernels/integer_depthwise/channels.h"
#include "kernels/integer_depthwise/integer_depthwise.h"
#include "ops/convolution.h"

namespace ortconv {

// Names of the implementations that can be asked for.
constexpr const char *kIntegerPhases = "integer_phases", *kIntegerTiles = "integer_tiles",
                     *kIntegerRows = "integer_rows", *kIntegerChannels = "integer_channels",
                     *kDequantized = "dequantized";

// What computes the runs of one problem.
struct QuantizedChoice {
  ConvProblem problem;
  bool is_empty = false;   // there is no dst
  double nanoseconds = 0;  // that it is estimated to take on one thread
  // One of these; if there is none, directly.
  std::optional<kernels::IntegerTransposedLayout> phases;
  std::optional<kernels::IntegerConvLayout> tiles;
  bool is_rows = false, is_channels = false;
  std::shared_ptr<const ConvChoice> floats;
};

// Immutable after creation: concurrent runs may share it.
class QuantizedConvolution {
 public:
  // `problem` holds what weight_problem() sets, and the begin paddings. The weights `filter` have to live as long. The
  // results of runs are of bytes, or all of floats.
  QuantizedConvolution(kernels::Op op, const ConvProblem& problem, const kernels::IntegerConvFilter& filter,
                       const ArchFlags& arch, ConvOptions options, bool to_floats);

  // Decides for a complete problem what computes its runs.
  std::shared_ptr<const QuantizedChoice> choose(const ConvProblem& problem) const;

  // Bytes of 64-byte aligned scratch that a run on so many threads needs.
  size_t scratch_bytes(const QuantizedChoice& choice, int threads) const;

  void run(const QuantizedChoice& choice, const kernels::IntegerResultOperands& operands, void* scratch,
           const Parallel& parallel) const;

 private:
  // As floats: made when they may be faster.
  struct Floats {
    std::vector<float> weights;
    std::unique_ptr<Convolution> convolution;
  };

  void choose_integers(QuantizedChoice* choice) const;
  const Floats& floats() const;
  void run_floats(const QuantizedChoice& choice, const kernels::IntegerResultOperands& operands, void* scratch,
                  const Parallel& parallel) const;

  kernels::Op op_;
  ConvProblem node_;
  kernels::IntegerConvFilter filter_;
  ArchFlags arch_;
  ConvOptions options_;
  const kernels::IntegerResultKernel& result_;
  const kernels::IntegerDepthwiseKernel* rows_kernel_;       // null: there is none
  const kernels::IntegerChannelsKernel* channels_kernel_;    // the same
  std::optional<kernels::IntegerTransposedWeights> phases_;  // of a transposed convolution
  std::optional<kernels::IntegerConvWeights> tiles_;         // of one that is not
  std::optional<kernels::IntegerDepthwiseWeights> rows_;     // of a depthwise one, where there is a kernel
  std::optional<kernels::IntegerChannelsWeights> channels_;  // the same
  bool may_be_floats_ = false;                               // no sum would be rounded
  mutable std::once_flag floats_made_;
  mutable Floats floats_;
};

// Estimated nanoseconds of a run on one thread, before anything is known of the weights of a convolution that is not
// transposed.
double quantized_conv_nanoseconds(const ConvProblem& problem, const ArchFlags& arch);

}  // namespace ortconv

// One node's transposed convolution of 8-bit integers, by the implementation that is fastest: in integers, or in floats
// where these are exact. All give the same results.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/arch.h"
#include "base/parallel.h"
#include "base/problem.h"
#include "kernels/integer_conv/transposed.h"
#include "ops/convolution.h"

namespace ortconv {

// Names of the implementations that can be asked for.
constexpr const char *kIntegerPhases = "integer_phases", *kDequantized = "dequantized";

// What computes the runs of one problem.
struct QuantizedChoice {
  ConvProblem problem;
  bool is_empty = false;                                     // there is no dst
  double nanoseconds = 0;                                    // that it is estimated to take on one thread
  std::optional<kernels::IntegerTransposedLayout> integers;  // by output phase
  std::shared_ptr<const ConvChoice> floats;                  // as floats; if there is neither, directly
};

// Immutable after creation: concurrent runs may share it.
class QuantizedConvolution {
 public:
  // `problem` holds what weight_problem() sets, and the begin paddings. The weights `filter` have to live as long.
  QuantizedConvolution(const ConvProblem& problem, const kernels::IntegerConvFilter& filter, const ArchFlags& arch,
                       ConvOptions options);

  // Decides for a complete problem what computes its runs.
  std::shared_ptr<const QuantizedChoice> choose(const ConvProblem& problem) const;

  // Bytes of 64-byte aligned scratch that a run on so many threads needs.
  size_t scratch_bytes(const QuantizedChoice& choice, int threads) const;

  void run(const QuantizedChoice& choice, const kernels::IntegerTransposedOperands& operands, void* scratch,
           const Parallel& parallel) const;

 private:
  void run_floats(const QuantizedChoice& choice, const kernels::IntegerTransposedOperands& operands, void* scratch,
                  const Parallel& parallel) const;

  kernels::IntegerConvFilter filter_;
  ArchFlags arch_;
  ConvOptions options_;
  const kernels::IntegerResultKernel& result_;
  std::optional<kernels::IntegerTransposedWeights> integers_;
  std::vector<float> float_weights_;
  std::unique_ptr<Convolution> floats_;  // null where sums may be rounded
};

}  // namespace ortconv

// Transposed convolutions of 8-bit integers, by output phase.
//
// Along an axis with stride s, the outputs p, p + s, p + 2s, ... are phase p: the same taps reach all of them, and
// neighbours read neighbours of the source. So the outputs of a phase of every axis are a convolution with stride 1 of
// the source, with some of the taps, and the kernels of integer_conv.h compute it. All phases read one arranged source.
// What the phases of the last axis give for a row of positions is interleaved, scaled and stored at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/parallel.h"
#include "kernels/integer_conv/integer_conv.h"
#include "kernels/integer_conv/result.h"

namespace ortconv::kernels {

// The weights w [ic, oc/g, ker...] of a problem whose sizes need not be known, but whose paddings are; packed for the
// kernel of an ISA.
class IntegerTransposedWeights {
 public:
  // None where a problem has more phases, or taps that are further apart, than is reasonable, and for depthwise
  // problems with a kernel that saturates.
  static std::optional<IntegerTransposedWeights> make(const IntegerConvKernel& kernel, const ConvProblem& problem,
                                                      const IntegerConvFilter& filter);

  // The taps of one phase of an axis, the one that reads furthest in front first: output j * s + phase reads position
  // j + reach of the source.
  struct Tap {
    int64_t index, reach;
  };
  struct Axis {
    std::vector<std::vector<Tap>> phases;
    int64_t least = 0, most = 0;  // of all reaches
  };
  // A phase of every axis: its taps by axis, and their weights; none where an axis has no tap.
  struct Phase {
    std::vector<const std::vector<Tap>*> taps;
    std::optional<IntegerConvWeights> weights;
  };

  const IntegerConvKernel& kernel() const { return *kernel_; }
  // How many lanes of weights a kernel that saturates has to multiply twice, on average over the phases.
  double excess_share() const;

  const std::vector<Axis>& axes() const { return axes_; }
  const std::vector<Phase>& phases() const { return phases_; }  // those of the last axis are neighbours
  // Any weights: those of a phase that has some. Null if there are none.
  const IntegerConvWeights* any() const;

  IntegerTransposedWeights(IntegerTransposedWeights&&) = default;  // phases_ points into axes_

 private:
  explicit IntegerTransposedWeights(const IntegerConvKernel& kernel) : kernel_(&kernel) {}

  const IntegerConvKernel* kernel_;
  std::vector<Axis> axes_;
  std::vector<Phase> phases_;
};

// The layout of the arranged source for all phases.
struct IntegerTransposedLayout {
  // For a problem with outputs. None as for IntegerConvLayout.
  static std::optional<IntegerTransposedLayout> make(const ConvProblem& problem,
                                                     const IntegerTransposedWeights& weights);

  ConvProblem arranged;  // a convolution that reads what all phases read
  IntegerConvLayout layout;
  std::vector<std::vector<int64_t>> taps;  // of each phase: offsets in the arranged source, as its weights want them
};

// `scratch` is 64-byte aligned and has integer_transposed_scratch_bytes.
void integer_transposed(const ConvProblem& problem, const IntegerTransposedLayout& layout,
                        const IntegerTransposedWeights& weights, const IntegerResultKernel& result,
                        const IntegerResultOperands& operands, void* scratch, const Parallel& parallel);
size_t integer_transposed_scratch_bytes(const ConvProblem& problem, const IntegerTransposedLayout& layout,
                                        const IntegerTransposedWeights& weights, int threads);

IntegerWork integer_transposed_work(const ConvProblem& problem, const IntegerTransposedLayout& layout,
                                    const IntegerTransposedWeights& weights);

// The same straight from the source, for every problem: slow, but copies nothing.
void integer_transposed_direct(const ConvProblem& problem, const IntegerConvFilter& filter,
                               const IntegerResultKernel& result, const IntegerResultOperands& operands,
                               const Parallel& parallel);

}  // namespace ortconv::kernels

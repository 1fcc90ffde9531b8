// One node's convolution: picks the kernel family, owns the packed weights, runs any shapes.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>

#include "base/arch.h"
#include "base/dtype.h"
#include "base/parallel.h"
#include "base/problem.h"
#include "kernels/conv/conv.h"
#include "ops/conv_params.h"
#include "ops/fast.h"
#include "ops/unit_axes.h"

namespace ortconv {

// Which of the two convolutions an op computes.
inline kernels::Op direction_of(ConvOp op) {
  return op == ConvOp::kConv ? kernels::Op::kConv : kernels::Op::kConvTranspose;
}

// Immutable after creation: concurrent runs may share it.
class Convolution {
 public:
  // `problem` holds at least what weight_problem() sets. Constant weights are packed here, others by each run.
  Convolution(DataType dtype, kernels::Op op, const ConvProblem& problem, const void* wei, Weights lifetime,
              const ArchFlags& arch);

  // Bytes of 64-byte aligned scratch that a run needs. The problem is a complete one and wei the weights, as for run().
  size_t scratch_bytes(const ConvProblem& problem, const void* wei, int threads) const;

  // Computes dst. `wei` is the same as at creation; `bias` may be null. A `residual`, if there is one, lies as dst does
  // and apart from it: it is added to what is rounded to its type, and the sum rounded again, before the activation.
  void run(const ConvProblem& problem, const void* src, const void* wei, const void* bias, const void* residual,
           void* dst, void* scratch, const Parallel& parallel) const;

 private:
  // A run without a residual.
  void compute(const ConvProblem& problem, const void* src, const void* wei, const void* bias, void* dst, void* scratch,
               const Parallel& parallel) const;

  // With merged axes: for the first crop that a run has, as another one takes other weights.
  struct Merged {
    std::once_flag made;
    Crop crop;
    std::unique_ptr<char[]> weights;  // null: those of the node
    std::unique_ptr<FastConvolution> fast;
  };
  // What computes a run, and its weights.
  struct Way {
    const FastConvolution* fast;  // null: the reference kernels
    const void* wei;
    std::optional<MergedAxes> merged;  // empty: the problem as it is
    const ConvProblem& problem(const ConvProblem& full) const { return merged ? merged->problem : full; }
  };

  Way way(const ConvProblem& problem, const void* wei) const;

  DataType dtype_;
  kernels::Op op_;
  Weights lifetime_;
  ArchFlags arch_;
  std::unique_ptr<FastConvolution> fast_;  // where the fast kernels take the problem
  mutable Merged merged_;                  // of constant weights
  std::unique_ptr<double[]> packed_;       // else constant weights packed for the reference kernels
};

// Whether the problem is so small that handing it to other threads costs more than it saves.
bool is_small(kernels::Op op, const ConvProblem& problem);

}  // namespace ortconv

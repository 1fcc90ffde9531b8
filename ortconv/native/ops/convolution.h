// One node's convolution: picks the kernel family, owns the packed weights, runs any shapes.
#pragma once

#include <cstddef>
#include <memory>

#include "base/arch.h"
#include "base/dtype.h"
#include "kernels/conv_transpose/conv_transpose_kernels.h"
#include "ops/conv_params.h"
#include "ops/fast.h"
#include "ops/problem.h"

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

  // Computes dst. `wei` is the same as at creation; `bias` may be null.
  void run(const ConvProblem& problem, const void* src, const void* wei, const void* bias, void* dst, void* scratch,
           const Parallel& parallel) const;

 private:
  DataType dtype_;
  kernels::Op op_;
  std::unique_ptr<FastConvolution> fast_;  // where the fast kernels take the problem
  std::unique_ptr<double[]> packed_;       // else constant weights packed for the reference kernels
};

// Whether the problem is so small that handing it to other threads costs more than it saves.
bool is_small(kernels::Op op, const ConvProblem& problem);

}  // namespace ortconv

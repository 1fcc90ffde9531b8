// One node's convolution: picks the kernel family, owns the packed weights, runs any shapes.
#pragma once

#include <cstddef>
#include <memory>

#include "base/arch.h"
#include "base/dtype.h"
#include "kernels/conv_transpose/conv_transpose_kernels.h"
#include "ops/problem.h"

namespace ortconv {

// Immutable after creation: concurrent runs may share it.
class Convolution {
 public:
  // `weights` is what weight_problem() gives. `wei` is packed now; when null, every run packs the weights it is given.
  Convolution(DataType dtype, kernels::Op op, const ConvProblem& weights, const void* wei, const ArchFlags& arch);

  // Bytes of 64-byte aligned scratch that a run needs. The problem is a complete one, as for run().
  size_t scratch_bytes(const ConvProblem& problem, int threads) const;

  // Computes dst. `bias` may be null; `wei` is not read when the weights were given at creation.
  void run(const ConvProblem& problem, const void* src, const void* wei, const void* bias, void* dst, void* scratch,
           const Parallel& parallel) const;

 private:
  DataType dtype_;
  kernels::Op op_;
  kernels::PlanPtr plan_;             // the fast family, where it takes the problem
  std::unique_ptr<double[]> packed_;  // else the packed weights of the reference kernels, when given at creation
};

// Runs everything on the calling thread.
Parallel serial();

// Whether the problem is so small that handing it to other threads costs more than it saves.
bool is_small(kernels::Op op, const ConvProblem& problem);

}  // namespace ortconv

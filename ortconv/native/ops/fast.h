// The fast kernels as the ops use them: for the floating-point types, where weights and sizes allow.
#pragma once

#include <cstddef>
#include <memory>

#include "base/arch.h"
#include "base/dtype.h"
#include "kernels/conv_transpose/conv_transpose_kernels.h"
#include "ops/problem.h"

namespace ortconv {

// For how long the weights given at creation stay the same.
enum class Weights { kConstant, kOneRun };

// Immutable after creation: concurrent runs may share it.
class FastConvolution {
 public:
  // Null when the fast kernels do not take the problem, which holds at least what weight_problem() sets. There must be
  // weights: ic and oc are not zero.
  static std::unique_ptr<FastConvolution> make(DataType dtype, kernels::Op op, const ConvProblem& problem,
                                               const void* wei, Weights lifetime, const ArchFlags& arch);

  // Bytes of 64-byte aligned scratch that a run of the complete problem needs.
  size_t scratch_bytes(const ConvProblem& problem, int threads) const;

  // Computes dst. `wei` is the same as at creation; `bias` may be null. Neither src nor dst is empty.
  void run(const ConvProblem& problem, const void* src, const void* wei, const void* bias, void* dst, void* scratch,
           const Parallel& parallel) const;

 private:
  explicit FastConvolution(kernels::PlanPtr plan);

  kernels::PlanPtr plan_;
};

}  // namespace ortconv

// The fast kernels as the ops use them: for the floating-point types, where weights and sizes allow.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>

#include "base/arch.h"
#include "base/dtype.h"
#include "base/parallel.h"
#include "base/problem.h"
#include "kernels/conv/conv.h"
#include "kernels/depth_to_space/depth_to_space.h"
#include "kernels/winograd/winograd.h"

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

  // Bytes of 64-byte aligned scratch that a run of the complete problem needs. `wei` is the same as at creation.
  size_t scratch_bytes(const ConvProblem& problem, const void* wei, int threads) const;

  // Computes dst. `wei` is the same as at creation; `bias` may be null. Neither src nor dst is empty.
  void run(const ConvProblem& problem, const void* src, const void* wei, const void* bias, void* dst, void* scratch,
           const Parallel& parallel) const;

 private:
  // Where the sizes of a run decide between ways that pack the weights differently, each way packs them when the first
  // run takes it, so that usually one copy is kept.
  template <class PlanPtr>
  struct Lazy {
    std::once_flag packed;
    PlanPtr plan;
  };
  using Direct = Lazy<kernels::PlanPtr>;

  FastConvolution(DataType dtype, kernels::Op op, Weights lifetime, const ArchFlags& arch);

  bool packs_later() const { return ways_ != nullptr || may_pack_taps_ || may_be_depth_to_space_; }
  // Null where the tiled kernels, which take everything, are to be used.
  const kernels::Plan* direct(const ConvProblem& problem, const void* wei) const;
  size_t direct_scratch_bytes(const ConvProblem& problem, const void* wei, int threads) const;
  void run_directly(const ConvProblem& problem, const void* src, const void* wei, const void* bias, void* dst,
                    void* scratch, const Parallel& parallel) const;
  // Null where the run is better computed directly.
  const kernels::winograd::Plan* filtered(const ConvProblem& problem, const void* wei) const;
  const kernels::depth_to_space::Plan* depth_to_space(const ConvProblem& problem, const void* wei) const;

  const DataType dtype_;
  const kernels::Op op_;
  const Weights lifetime_;
  const ArchFlags arch_;
  kernels::winograd::WaysPtr ways_;                       // null where no run is computed by minimal filtering
  bool may_be_depth_to_space_ = false;                    // whether some runs may be sub-pixel convolutions
  bool may_pack_taps_ = false;                            // whether some runs may be computed tap by tap
  mutable Direct direct_[2];                              // one of each kernels::Packing
  mutable Lazy<kernels::winograd::PlanPtr> filtered_[2];  // one of each kernels::winograd::Windows
  mutable Lazy<kernels::depth_to_space::PlanPtr> depth_to_space_;
};

}  // namespace ortconv

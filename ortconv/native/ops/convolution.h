// One node's convolution: of any type and any shapes, by the implementation that is fastest.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/arch.h"
#include "base/dtype.h"
#include "base/parallel.h"
#include "base/problem.h"
#include "kernels/conv/conv.h"
#include "ops/conv_params.h"
#include "ops/implementations/chooser.h"
#include "ops/simplified_problem.h"

namespace ortconv {

// Which of the two convolutions an op computes.
inline kernels::Op direction_of(ConvOp op) {
  return op == ConvOp::kConv ? kernels::Op::kConv : kernels::Op::kConvTranspose;
}

// Whether the weights given at creation are those of every run, or each run has its own.
enum class Weights { kConstant, kOfRun };

// What a session says of all its convolutions, and how the node is called.
struct ConvOptions {
  std::string implementation;  // that is to compute what it can (see implementations/list.cc); empty: the fastest
  std::string choices;         // the file that log_choice() writes to; empty: none
  std::string tuning;          // the file of a Tuning: implementations are measured, not estimated; empty: none
  std::string node;
  bool is_exact = false;  // see implementations::Node
};

// A node with fewer axes or taps, which problems share that are the same apart from sizes.
struct SimplifiedNode {
  Crop crop;
  ConvProblem problem;
  std::unique_ptr<char[]> weights;  // null: those of the full node
  std::unique_ptr<implementations::Chooser> chooser;
};

// What computes the runs of one problem.
struct ConvChoice {
  ConvProblem problem;
  ConvProblem simplified;                         // the same, or with fewer axes or taps
  const SimplifiedNode* simplified_by = nullptr;  // what computes that; null: the node itself
  bool is_empty = false;                          // there is no dst
  bool sums = false;                              // else no output is reached by any tap: dst is the bias alone
  // For weights without and with infinities or NaN; null where the weights are constant and of the other kind, and for
  // types that the reference kernels compute.
  const implementations::Candidate *finite = nullptr, *any = nullptr;
  bool may_improve = false;  // by measure()
};

// Immutable after creation: concurrent runs may share it.
class Convolution {
 public:
  // `problem` holds at least what weight_problem() sets.
  Convolution(DataType dtype, kernels::Op op, const ConvProblem& problem, const void* wei, Weights lifetime,
              const ArchFlags& arch, ConvOptions options = {});

  // Decides for a complete problem what computes its runs, and packs constant weights for it. `wei`: as for run().
  std::shared_ptr<const ConvChoice> choose(const ConvProblem& problem, const void* wei) const;

  // Estimated nanoseconds of a run on one thread. `wei`: as for run().
  double nanoseconds(const ConvProblem& problem, const void* wei) const;

  // The choice of the implementation that is fastest for these tensors: as the tuning knows, or after a few runs of
  // each that may be. For a choice that may improve; overwrites dst.
  std::shared_ptr<const ConvChoice> measure(const ConvChoice& choice, const void* src, const void* wei,
                                            const void* bias, void* dst, const Parallel& parallel) const;

  // What a run with finite constant weights is estimated to take on one thread; 0 where there is nothing to sum.
  double nanoseconds(const ConvChoice& choice) const;

  // Whether a run is so short that handing parts of it to other threads costs more than it saves.
  bool is_small(const ConvChoice& choice) const;

  // Bytes of 64-byte aligned scratch that a run on so many threads needs.
  size_t scratch_bytes(const ConvChoice& choice, int threads) const;

  // Computes dst. `wei` is the same as at creation, if it is constant; `bias` may be null. A `residual`, if there is
  // one, lies as dst does and apart from it: it is added to what is rounded to its type, and the sum rounded again,
  // before the activation.
  void run(const ConvChoice& choice, const void* src, const void* wei, const void* bias, const void* residual,
           void* dst, void* scratch, const Parallel& parallel) const;

 private:
  const SimplifiedNode* simplify(const ConvProblem& problem, const void* wei, ConvProblem* simplified) const;
  const implementations::Chooser& chooser(const ConvChoice& choice) const;
  const void* weights(const ConvChoice& choice, const void* wei) const;
  void log(const ConvChoice& choice, const implementations::Candidate& chosen, bool any_weights) const;
  void run_chosen(const ConvChoice& choice, const ConvProblem& problem, const implementations::Tensors& tensors,
                  const Parallel& parallel) const;
  // A run without a residual.
  void compute(const ConvChoice& choice, const ConvProblem& problem, const implementations::Tensors& tensors,
               const Parallel& parallel) const;

  DataType dtype_;
  kernels::Op op_;
  ArchFlags arch_;
  bool is_constant_;
  bool is_finite_ = true;  // constant weights
  ConvOptions options_;
  ConvProblem node_;
  std::unique_ptr<implementations::Chooser> chooser_;  // of floating-point types; null: the reference kernels
  mutable std::mutex simplifying_;
  mutable std::vector<std::unique_ptr<const SimplifiedNode>> simplified_;
  std::unique_ptr<double[]> packed_;  // constant weights packed for the reference kernels
};

// The same of a problem whose time is not estimated.
bool is_small(kernels::Op op, const ConvProblem& problem);

}  // namespace ortconv

// What the ways of kernels/conv share: a plan, whose weights are packed when the first run needs them.
#pragma once

#include <mutex>

#include "kernels/conv/plan.h"
#include "ops/implementations/implementation.h"
#include "ops/implementations/limits.h"

namespace ortconv::implementations {

class Direct : public Implementation {
 protected:
  // `sizes` is a plan of the node without weights.
  Direct(const Node& node, kernels::PlanPtr sizes) : node_(node), sizes_(std::move(sizes)) {}

  // Whether the layouts of a run count in int64, and so much scratch, `bytes_of` a plan and the problem, is in
  // proportion.
  template <class Fn>
  bool is_moderate(const ConvProblem& problem, Fn bytes_of) const {
    return counts_fit(node_.op, problem) &&
           is_in_proportion(bytes_of(*sizes_, problem, 1), problem, sizes_->cell_bytes);
  }

  // The plan without weights.
  const kernels::Plan& sizes() const { return *sizes_; }
  const Node& node() const { return node_; }
  bool has_constant_weights() const { return node_.wei != nullptr; }

 private:
  const Node node_;
  const kernels::PlanPtr sizes_;
};

// One that reads the weights as they lie, by functions of kernels/conv.
template <size_t (*kScratchBytes)(const kernels::Plan&, const ConvProblem&, int threads), auto kRun>
class UnpackedDirect : public Direct {
 public:
  size_t scratch_bytes(const ConvProblem& problem, int threads) const override {
    return kScratchBytes(sizes(), problem, threads);
  }
  bool run(const ConvProblem& problem, const Tensors& t, const Parallel& parallel) const override {
    kRun(sizes(), problem, t.src, t.wei, t.bias, t.dst, t.scratch, parallel);
    return true;
  }

 protected:
  using Direct::Direct;
  bool is_moderate(const ConvProblem& problem) const { return Direct::is_moderate(problem, kScratchBytes); }
};

// One whose weights are packed. What is known before must not look at the packed plan, which another run may be making.
class PackedDirect : public Direct {
 public:
  void pack(const void* wei) const override {
    if (!has_constant_weights()) return;
    std::call_once(once_, [&] {
      packed_ = kernels::make_plan(node().op, node().problem, node().dtype, wei, node().arch, packing_);
    });
  }
  size_t scratch_bytes(const ConvProblem& problem, int threads) const override {
    return kernels::scratch_bytes(plan(), problem, threads);
  }
  bool run(const ConvProblem& problem, const Tensors& t, const Parallel& parallel) const override {
    kernels::run(plan(), problem, t.src, t.wei, t.bias, t.dst, t.scratch, parallel);
    return true;
  }

 protected:
  bool is_moderate(const ConvProblem& problem) const { return Direct::is_moderate(problem, kernels::scratch_bytes); }

  PackedDirect(const Node& node, kernels::PlanPtr sizes, kernels::Packing packing)
      : Direct(node, std::move(sizes)), packing_(packing) {}

 private:
  const kernels::Plan& plan() const { return packed_ == nullptr ? sizes() : *packed_; }

  const kernels::Packing packing_;
  mutable std::once_flag once_;
  mutable kernels::PlanPtr packed_;
};

inline kernels::PlanPtr plan_without_weights(const Node& node) {
  return kernels::make_plan(node.op, node.problem, node.dtype, nullptr, node.arch);
}

}  // namespace ortconv::implementations

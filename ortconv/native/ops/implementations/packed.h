// What families share that have a plan of their own, which owns the packed weights.
#pragma once

#include <mutex>
#include <type_traits>

#include "ops/implementations/implementation.h"

namespace ortconv::implementations {

// By functions of the family, which have the same arguments in each.
template <auto kMakePlan, auto kScratchBytes, auto kRun>
class Packed : public Implementation {
 public:
  explicit Packed(const Node& node) : node_(node), sizes_(kMakePlan(node.problem, node.dtype, nullptr, node.arch)) {}

  void pack(const void* wei) const override {
    if (node_.wei == nullptr) return;
    std::call_once(once_, [&] { packed_ = kMakePlan(node_.problem, node_.dtype, wei, node_.arch); });
  }
  size_t scratch_bytes(const ConvProblem& problem, int threads) const override {
    return kScratchBytes(plan(), problem, threads);
  }
  bool run(const ConvProblem& problem, const Tensors& t, const Parallel& parallel) const override {
    const auto run_plan = [&] { return kRun(plan(), problem, t.src, t.wei, t.bias, t.dst, t.scratch, parallel); };
    if constexpr (std::is_same_v<decltype(run_plan()), bool>) {
      return run_plan();
    } else {
      run_plan();
      return true;
    }
  }

 protected:
  const Node& node() const { return node_; }
  // The plan without weights. What is known before must not look at the packed one, which another run may be making.
  const auto& sizes() const { return *sizes_; }

 private:
  using PlanPtr = decltype(kMakePlan(ConvProblem(), DataType(), nullptr, ArchFlags()));

  const auto& plan() const { return packed_ == nullptr ? *sizes_ : *packed_; }

  const Node node_;
  const PlanPtr sizes_;
  mutable std::once_flag once_;
  mutable PlanPtr packed_;
};

}  // namespace ortconv::implementations

// Plans of convolutions as an implicit GEMM.
#pragma once

#include <functional>
#include <vector>

#include "cuda/plan/plan.h"
#include "cuda/plan/tiling.h"

namespace ortconv::cuda {

// As plan_weights; empty where the problem is not supported.
WeightPlan plan_gemm_weights(const Elements& elements, kernels::Op op, const ConvProblem& problem, const Device& device,
                             const Options& options);

// Chooses one of the tilings, of which there is at least one.
using ChooseTiling = std::function<const Tiling&(const std::vector<Tiling>& tilings)>;
const Tiling& quickest(const std::vector<Tiling>& tilings);

// As plan_run, for a non-empty result; false where the problem is not supported.
bool plan_gemm(const Elements& elements, kernels::Op op, const ConvProblem& problem, const Device& device,
               const Options& options, bool packed, const Terms& terms, Plan* plan,
               const ChooseTiling& choose = quickest);

}  // namespace ortconv::cuda

// Plans of convolutions as matrix products.
#pragma once

#include <functional>
#include <vector>

#include "cuda/plan/plan.h"
#include "cuda/plan/tiling.h"

namespace ortconv::cuda {

// As plan_weights; packs nothing where the weights do not suit.
WeightPlan plan_gemm_weights(const Elements& elements, kernels::Op op, const ConvProblem& problem, const Device& device,
                             const Options& options);

// The one of the tilings that is taken; there is at least one.
using ChooseTiling = std::function<const Tiling&(const std::vector<Tiling>& tilings)>;
const Tiling& quickest(const std::vector<Tiling>& tilings);

// As plan_run, for a result that is not empty; false where the problem does not suit.
bool plan_gemm(const Elements& elements, kernels::Op op, const ConvProblem& problem, const Device& device,
               const Options& options, bool packed, bool bias, Plan* plan, const ChooseTiling& choose = quickest);

}  // namespace ortconv::cuda

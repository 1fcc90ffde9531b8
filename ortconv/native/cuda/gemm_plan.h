// Plans of convolutions as matrix products.
#pragma once

#include "cuda/plan.h"

namespace ortconv::cuda {

// As plan_weights; packs nothing where the weights do not suit.
WeightPlan plan_gemm_weights(DataType dtype, kernels::Op op, const ConvProblem& problem, const Device& device,
                             const Options& options);

// As plan_run, for a result that is not empty; false where the problem does not suit.
bool plan_gemm(DataType dtype, kernels::Op op, const ConvProblem& problem, const Device& device, const Options& options,
               bool packed, bool bias, Plan* plan);

}  // namespace ortconv::cuda

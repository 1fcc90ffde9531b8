// Plans of convolutions in groups of few channels.
#pragma once

#include <optional>

#include "cuda/plan/plan.h"

namespace ortconv::cuda {

// Whether the weights are of this kind, which are then not packed.
bool is_depthwise(kernels::Op op, const ConvProblem& problem);

// None where a run is too large for it.
std::optional<Launch> plan_depthwise(const Elements& elements, kernels::Op op, const ConvProblem& problem,
                                     const Device& device, const Terms& terms);

}  // namespace ortconv::cuda

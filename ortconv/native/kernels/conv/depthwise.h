// Convolutions whose groups have one src channel each, by the row kernels of kernels/depthwise.
//
// Nothing is packed: the weights of a channel are so few that each run lays them out for the kernel, as the phases of
// its padding need them. Rows of src are copied with zeros around them, some at a time, so that they stay in L1.
#pragma once

#include <cstddef>

#include "base/parallel.h"
#include "kernels/conv/plan.h"

namespace ortconv::kernels {

// Whether a run may be computed so.
bool can_run_depthwise(const Plan& plan, const ConvProblem& problem);

size_t depthwise_scratch_bytes(const Plan& plan, const ConvProblem& problem, int threads);

// As run(), for a problem that can_run_depthwise() accepts; wei is not null.
void run_depthwise(const Plan& plan, const ConvProblem& problem, const void* src, const void* wei, const void* bias,
                   void* dst, void* scratch, const Parallel& parallel);

}  // namespace ortconv::kernels

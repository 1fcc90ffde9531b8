// Depthwise convolutions whose rows are so short that vectors of them would be mostly empty: the lanes are channels.
//
// As many channels as a vector has lanes are laid side by side, with zeros before and after each row, so that every
// vector is full and no row outside src is computed; their sums are transposed back as they are written. Nothing is
// packed ahead, as with the rows of depthwise.h.
#pragma once

#include <cstddef>

#include "base/parallel.h"
#include "kernels/conv/plan.h"

namespace ortconv::kernels {

// Whether this is the faster way, and possible.
bool prefers_channel_lanes(const Plan& plan, const ConvProblem& problem);

size_t channel_lanes_scratch_bytes(const Plan& plan, const ConvProblem& problem, int threads);

// As run(), for problems that prefer it; wei is not null.
void run_channel_lanes(const Plan& plan, const ConvProblem& problem, const void* src, const void* wei, const void* bias,
                       void* dst, void* scratch, const Parallel& parallel);

}  // namespace ortconv::kernels

// Depthwise convolutions with short rows: the lanes of a vector are channels, since vectors of a row would be mostly
// empty.
//
// One vector of channels is interleaved at a time, with zeros before and after each row. So every vector is full, and
// no row outside src is computed. The sums are transposed back as they are written. Like depthwise.h, this packs
// nothing ahead of the run.
#pragma once

#include <cstddef>

#include "base/parallel.h"
#include "kernels/conv/plan.h"

namespace ortconv::kernels {

// Whether a run may be computed so.
bool can_run_channel_lanes(const Plan& plan, const ConvProblem& problem);

size_t channel_lanes_scratch_bytes(const Plan& plan, const ConvProblem& problem, int threads);

// As run(), for a problem that can_run_channel_lanes() accepts; wei is not null.
void run_channel_lanes(const Plan& plan, const ConvProblem& problem, const void* src, const void* wei, const void* bias,
                       void* dst, void* scratch, const Parallel& parallel);

}  // namespace ortconv::kernels

// Transposed convolutions whose windows do not overlap: strides of at least the kernel's extent.
//
// Every output is of one position and one tap, or the bias alone. The GEMM multiplies positions of src by weights,
// whose columns are dst channels and taps: its result for a position and a channel is a window, whose rows are copied
// to where they belong. What lies between windows is filled before.
#pragma once

#include <cstddef>
#include <memory>

#include "base/arch.h"
#include "base/dtype.h"
#include "base/parallel.h"
#include "base/problem.h"

namespace ortconv::kernels::disjoint_windows {

// Whether runs of a node may be computed here, and a run. static_part as for make_plan() of kernels/conv/conv.h.
bool takes(const ConvProblem& static_part);
bool can_run(const ConvProblem& full);

// Immutable after creation and shared by concurrent runs. Owns packed weights when they were given.
struct Plan;
using PlanPtr = std::shared_ptr<const Plan>;

// Of a node that is taken. wei_const is null when the weights change from run to run.
PlanPtr make_plan(const ConvProblem& static_part, DataType dtype, const void* wei_const, const ArchFlags& arch);

// Bytes of 64-byte aligned scratch that a run of `full` on `threads` threads needs. Neither src nor dst is empty.
size_t scratch_bytes(const Plan& plan, const ConvProblem& full, int threads);

// Computes dst, activated. wei is that of make_plan(), if it had any; bias may be null.
// No heap use; the result does not depend on the number of threads.
void run(const Plan& plan, const ConvProblem& full, const void* src, const void* wei, const void* bias, void* dst,
         void* scratch, const Parallel& parallel);

}  // namespace ortconv::kernels::disjoint_windows

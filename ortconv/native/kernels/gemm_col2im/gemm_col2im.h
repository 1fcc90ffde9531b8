// Transposed convolutions of any sizes by products of matrices: GEMM, then col2im.
//
// The GEMM multiplies the weights, whose rows are dst channels and taps, by src, whose columns are positions. The rows
// of its result are added to sums while they are in the cache. Sums are kept by the residue of dst positions modulo the
// stride: the positions of src that a tap multiplies then go to sums that are next to each other, whatever the stride.
#pragma once

#include <cstddef>
#include <memory>

#include "base/arch.h"
#include "base/dtype.h"
#include "base/parallel.h"
#include "base/problem.h"

namespace ortconv::kernels::gemm_col2im {

// Whether runs of a node may be computed here. static_part as for make_plan() of kernels/conv/conv.h.
bool takes(const ConvProblem& static_part);

// Immutable after creation and shared by concurrent runs. Owns packed weights when they were given.
struct Plan;
using PlanPtr = std::shared_ptr<const Plan>;

// Of a node that is taken. wei_const is null when the weights change from run to run.
PlanPtr make_plan(const ConvProblem& static_part, DataType dtype, const void* wei_const, const ArchFlags& arch);

// Bytes of 64-byte aligned scratch that a run of `full` on `threads` threads needs. Neither src nor dst is empty. To be
// called before a run: it may pack the weights once more, for few positions of src.
size_t scratch_bytes(const Plan& plan, const ConvProblem& full, int threads);

// Computes dst, activated. wei is that of make_plan(), if it had any; bias may be null.
// No heap use but for the lists of a plan, when sizes are not those of the last run; the result does not depend on the
// number of threads.
void run(const Plan& plan, const ConvProblem& full, const void* src, const void* wei, const void* bias, void* dst,
         void* scratch, const Parallel& parallel);

}  // namespace ortconv::kernels::gemm_col2im

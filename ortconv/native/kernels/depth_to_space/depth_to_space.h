// Transposed convolutions whose kernel is the stride: sub-pixel convolutions.
//
// Every element of dst is then the sum, over the channels, of one src position with the weights of one tap: a GEMM of
// the weights and src as it is, whose result is rearranged (which is known as pixel shuffle, or depth to space). Here
// it is written straight from the registers of the microkernel to where it belongs.
#pragma once

#include <cstddef>
#include <memory>

#include "base/arch.h"
#include "base/dtype.h"
#include "base/parallel.h"
#include "base/problem.h"

namespace ortconv::kernels::depth_to_space {

// Whether runs of a node may be computed here. static_part as for make_plan() of kernels/conv_transpose.
bool takes(const ConvProblem& static_part, DataType dtype, const ArchFlags& arch);

// Whether this run is: nothing is cut off and nothing added, rows are contiguous, and there is enough of them.
bool suits(const ConvProblem& full);

// Immutable after creation and shared by concurrent runs. Owns packed weights when they were given.
struct Plan;
using PlanPtr = std::shared_ptr<const Plan>;

// Of a node that is taken. wei_const is null when the weights change from run to run.
PlanPtr make_plan(const ConvProblem& static_part, DataType dtype, const void* wei_const, const ArchFlags& arch);

// Bytes of 64-byte aligned scratch that a run of `full` on `threads` threads needs.
size_t scratch_bytes(const Plan& plan, const ConvProblem& full, int threads);

// Computes dst, activated, of a run that suits. wei is that of make_plan(), if it had any; bias may be null.
// No heap use; the result does not depend on the number of threads.
void run(const Plan& plan, const ConvProblem& full, const void* src, const void* wei, const void* bias, void* dst,
         void* scratch, const Parallel& parallel);

}  // namespace ortconv::kernels::depth_to_space

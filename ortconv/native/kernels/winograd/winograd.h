// Transposed and ordinary convolutions by minimal filtering (Winograd, Toom, Cook): fewer products than taps. Tensors
// are of float or of 16 bits, which are transformed, multiplied and summed as floats and rounded once.
//
// Where a class of outputs (see kernels/conv/plan.h) has two or three taps on an axis, windows of four inputs give
// three or two outputs with four products instead of six. The filters nest over the axes: 2.25 times fewer products in
// two dimensions. In between stand, for every point of the window, a GEMM of the transformed weights and the
// transformed src. Each nested filter makes the error larger: where it would be too large, the first axes are left
// unfiltered, and the GEMM sums their taps.
//
// The result is not what a sum of products gives bit by bit: sums of neighbours are formed and taken apart again. The
// error is bounded by what the largest elements of a window allow, and each finite src and weight has to be of moderate
// magnitude; run() says when src is not.
#pragma once

#include <cstddef>
#include <memory>

#include "base/arch.h"
#include "base/dtype.h"
#include "base/parallel.h"
#include "base/problem.h"
#include "kernels/conv/conv.h"

namespace ortconv::kernels::winograd {

// Which classes look at the same windows. Shared windows are transformed once for all classes. Separate windows have
// two outputs instead of three, so the transformed weights are 9/4 instead of 4 times as large as the taps: for small
// images, where reading the weights is what takes the time. Only for kernels of twice the stride.
enum class Windows { kShared, kSeparate };

// Whether this family takes weights of this type, these sizes and values at all.
bool takes_weights(Op op, const ConvProblem& static_part, DataType dtype, const void* wei, const ArchFlags& arch);

// Immutable after creation and shared by concurrent runs. Owns the transformed weights.
struct Plan;
using PlanPtr = std::shared_ptr<const Plan>;

// A plan without weights, which the cost of a run can be told from. Null where no run should be computed so.
PlanPtr make_sizes(Op op, const ConvProblem& static_part, Windows windows, DataType dtype, const ArchFlags& arch);

PlanPtr make_plan(Op op, const ConvProblem& static_part, Windows windows, DataType dtype, const void* wei,
                  const ArchFlags& arch);

// Whether a run may be computed so: rows of src and of dst are read and written whole.
bool can_run(const ConvProblem& full);

// Bytes of 64-byte aligned scratch that a run of `full` on `threads` threads needs.
size_t scratch_bytes(const Plan& plan, const ConvProblem& full, int threads);

// Computes dst, activated; bias may be null. False when src holds an infinity, a NaN or a huge element, which would
// reach outputs that are none of its own: dst is undefined then. The result does not depend on the number of threads.
bool run(const Plan& plan, const ConvProblem& full, const void* src, const void* bias, void* dst, void* scratch,
         const Parallel& parallel);

}  // namespace ortconv::kernels::winograd

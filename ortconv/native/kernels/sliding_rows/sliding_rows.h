// Transposed convolutions of few channels, row by row: rows of one operand slide along rows of dst.
//
// Along the last axis dst[x * stride + k * dilation - pad] += src[x] * weights[k]. Without a stride, the row of dst is
// the sum of the row of src at as many places as there are taps; without dilation it is the sum of the row of weights
// at as many places as there are positions. Sums stay in registers until they are complete, over the channels and over
// the rows that meet along the other axes, and nothing outside src is multiplied on these. No operand is reordered, no
// product is written, so this pays where a GEMM would sum few channels.
#pragma once

#include <cstddef>
#include <memory>

#include "base/arch.h"
#include "base/dtype.h"
#include "base/parallel.h"
#include "base/problem.h"

namespace ortconv::kernels::sliding_rows {

enum class Operand { kSrc, kWeights };

// Whether runs of a node may be computed with this operand sliding. static_part as for make_plan() of
// kernels/conv/conv.h.
bool takes(const ConvProblem& static_part, Operand sliding);

// Immutable after creation and shared by concurrent runs. Owns packed weights when they were given.
struct Plan;
using PlanPtr = std::shared_ptr<const Plan>;

// Of a node that is taken. wei_const is null when the weights change from run to run.
template <Operand kSliding>
PlanPtr make_plan(const ConvProblem& static_part, DataType dtype, const void* wei_const, const ArchFlags& arch);

// Bytes of 64-byte aligned scratch that a run of `full` on `threads` threads needs. Neither src nor dst is empty.
size_t scratch_bytes(const Plan& plan, const ConvProblem& full, int threads);

// Computes dst, activated. wei is that of make_plan(), if it had any; bias may be null. Weights have to be finite where
// src slides. Where weights do, src has to be: false if it is not, and dst is undefined.
// No heap use; the result does not depend on the number of threads.
bool run(const Plan& plan, const ConvProblem& full, const void* src, const void* wei, const void* bias, void* dst,
         void* scratch, const Parallel& parallel);

}  // namespace ortconv::kernels::sliding_rows

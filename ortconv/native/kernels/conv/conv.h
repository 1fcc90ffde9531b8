// The fast floating-point family for ConvTranspose and Conv: output phases, implicit GEMM, packed weights.
//
// A strided transposed convolution is prod(stride) ordinary correlations, one per residue of the output position,
// each with its own subset of the taps. Nothing is multiplied by an inserted zero and no column buffer is built.
#pragma once

#include <cstddef>
#include <memory>

#include "base/arch.h"
#include "base/dtype.h"
#include "base/parallel.h"
#include "base/problem.h"

namespace ortconv::kernels {

enum class Op { kConvTranspose, kConv };

// Immutable after creation and shared by concurrent runs. Owns packed weights when they were given.
struct Plan;
using PlanPtr = std::shared_ptr<Plan>;

// How weights are packed: for output phases, or tap by tap, for small images whose phases would spend many products on
// the zeros around them (see tapwise.h).
enum class Packing { kPhases, kTaps };

// Plans one node of a floating-point type. static_part needs g, ic, oc, ker, stride, dilation and the weight strides;
// sizes, pads and the other strides may still be zero. wei_const is null when the weights change from run to run, and
// must not be where they are packed tap by tap. Null when this family does not take the problem: more phases or taps
// than kMaxTaps, or weights that are not finite (taps outside src are computed, on zeros). With run-time weights the
// caller has to see to the latter.
PlanPtr make_plan(Op op, const ConvProblem& static_part, DataType dtype, const void* wei_const, const ArchFlags& arch,
                  Packing packing = Packing::kPhases);
constexpr int64_t kMaxTaps = 4096;

// Whether there is neither an infinity nor a NaN among the weights.
bool all_finite(Op op, const ConvProblem& static_part, DataType dtype, const void* wei);

// Bytes of 64-byte aligned scratch that a run of `full` on `threads` threads needs.
size_t scratch_bytes(const Plan& plan, const ConvProblem& full, int threads);

// Computes dst, activated. wei is that of make_plan(), if it had any; bias may be null.
// No heap use; the result does not depend on the number of threads.
void run(const Plan& plan, const ConvProblem& full, const void* src, const void* wei, const void* bias, void* dst,
         void* scratch, const Parallel& parallel);

}  // namespace ortconv::kernels

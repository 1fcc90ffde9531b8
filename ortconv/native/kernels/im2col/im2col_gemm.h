// Convolution and transposed convolution of any sizes: products of tiles of weights and of src.
//
// A convolution multiplies its weights, [dst channel][src channel, tap], by what every position of dst reads of src,
// [src channel, tap][position]. A transposed one multiplies src, [position][src channel], by its weights,
// [src channel][dst channel, tap], and adds every column of the product into dst where its tap lands. One tile of each
// operand exists at a time, from which taps that meet nothing are left out. So there is no limit to channels, taps,
// strides, dilations and pads; memory is in proportion to src, dst and weights; and nothing is multiplied by a zero
// that the definition does not have, so that weights may be infinite or NaN.
//
// The other families are faster where they suit. This one keeps nothing from run to run: weights are read as they are.
#pragma once

#include <cstddef>

#include "base/arch.h"
#include "base/dtype.h"
#include "base/parallel.h"
#include "base/problem.h"
#include "kernels/conv/conv.h"

namespace ortconv::kernels::im2col {

// The two products. kPatches: a convolution, or a transposed one without strides. kColumns: a transposed one.
enum class Way { kPatches, kColumns };

bool can_run(Way way, Op op, const ConvProblem& problem);

// Bytes of 64-byte aligned scratch that a run of a floating-point type on `threads` threads needs. Neither src nor dst
// is empty.
size_t scratch_bytes(Way way, Op op, const ConvProblem& problem, DataType dtype, const ArchFlags& arch, int threads);

// Computes dst, activated; bias may be null. No heap use; the result does not depend on the number of threads.
void run(Way way, Op op, const ConvProblem& problem, DataType dtype, const ArchFlags& arch, const void* src,
         const void* wei, const void* bias, void* dst, void* scratch, const Parallel& parallel);

}  // namespace ortconv::kernels::im2col

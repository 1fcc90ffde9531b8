// The kernels that are always there: convolution and transposed convolution of every element type over any strides.
//
// Sums are formed in the accumulation type starting from the bias (integers modulo 2^bits), and converted once.
// Weights are first converted to the accumulation type and packed, see pack_weights.
#pragma once

#include <cstddef>

#include "base/dtype.h"
#include "base/parallel.h"
#include "base/problem.h"
#include "kernels/conv/conv.h"

namespace ortconv::reference {

// Bytes that pack_weights fills; depends only on what weight_problem() sets.
size_t packed_bytes(DataType dtype, const ConvProblem& problem);

// Packs to [g][block of output channels][kernel taps][input channels of the group][channels of a block], the last block
// filled up with zeros. `packed` is aligned for a double.
void pack_weights(DataType dtype, kernels::Op op, const ConvProblem& problem, const void* wei, void* packed,
                  const Parallel& parallel);

// Computes all of dst, which must not be empty. With `packed` null there is nothing to sum and src is not read.
// `bias` has oc elements or is null.
void run(DataType dtype, kernels::Op op, const ConvProblem& problem, const void* src, const void* packed,
         const void* bias, void* dst, const Parallel& parallel);

}  // namespace ortconv::reference

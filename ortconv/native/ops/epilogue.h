// What happens to a result after its sums are complete, as passes over the whole result: activation, residual.
#pragma once

#include <cstdint>

#include "base/activation.h"
#include "base/dtype.h"
#include "base/parallel.h"
#include "kernels/epilogue/epilogue.h"

namespace ortconv {

// Applies the activation in place to elements of a type that accumulates in float.
void activate(DataType dtype, const Activation& activation, void* data, int64_t count, const Parallel& parallel);

// Adds a residual in place, rounds to the type (integers wrap), and activates the sums. The residual has the layout of
// dst.
void add_residual(const kernels::EpilogueKernel& kernel, DataType dtype, const Activation& activation,
                  const void* residual, void* dst, int64_t count, const Parallel& parallel);

}  // namespace ortconv

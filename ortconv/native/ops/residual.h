// A residual, which lies as dst does, added to a result of any element type.
#pragma once

#include <cstdint>

#include "base/dtype.h"
#include "kernels/residual/residual.h"
#include "ops/problem.h"

namespace ortconv {

// Adds it in place, rounded to the type (integers wrap), and activates the sums.
void add_residual(const kernels::ResidualKernel& kernel, DataType dtype, const Activation& activation,
                  const void* residual, void* dst, int64_t count, const Parallel& parallel);

}  // namespace ortconv

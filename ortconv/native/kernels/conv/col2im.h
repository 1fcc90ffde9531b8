// Transposed convolution of a small src: one GEMM into a buffer of columns, which are then added into dst.
//
// Where src is smaller than the kernel most products of a phase would be with the zeros around src. Here every src
// position is multiplied with every tap exactly once,
//     columns[n, x][m, k] = sum over c of src[n, c, x] * wei[c, m, k],
// and dst[n, m, x * s - pad + k * d] collects them. The buffer holds a few dst channels at a time. The weights are read
// as they are, so they have to be contiguous.
#pragma once

#include <cstddef>

#include "base/parallel.h"
#include "kernels/conv/plan.h"

namespace ortconv::kernels {

// Whether a run may be computed so.
bool can_run_columns(const Plan& plan, const ConvProblem& problem);

size_t columns_scratch_bytes(const Plan& plan, const ConvProblem& problem, int threads);

// As run(), for a problem that can_run_columns() accepts; wei is not null.
void run_columns(const Plan& plan, const ConvProblem& problem, const void* src, const void* wei, const void* bias,
                 void* dst, void* scratch, const Parallel& parallel);

}  // namespace ortconv::kernels

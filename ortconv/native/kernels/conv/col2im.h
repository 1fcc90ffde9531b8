// Transposed convolution of a small src: one GEMM into a buffer of columns, which are then added into dst.
//
// Where src is smaller than the kernel most products of a phase would be with the zeros around src. Here every src
// position is multiplied with every tap exactly once,
//     columns[n, x][m, k] = sum over c of src[n, c, x] * wei[c, m, k],
// and dst[n, m, x * s - pad + k * d] collects them. The buffer holds a few dst channels at a time. The weights are read
// in the order in which they lie, so they have to be contiguous.
#pragma once

#include <cstddef>

#include "base/parallel.h"
#include "kernels/conv/plan.h"

namespace ortconv::kernels {

// Whether a run may be computed so.
bool can_run_columns(const Plan& plan, const ConvProblem& problem);

// Weights of 16 bits as floats, in the same order: their runs need not widen them.
Buffer widened_weights(const Plan& plan, const void* wei);

struct ColumnWeights {
  const void* stored;
  const float* widened = nullptr;  // null: none were made
};

size_t columns_scratch_bytes(const Plan& plan, const ConvProblem& problem, int threads, bool is_widened);

// As run(), for a problem that can_run_columns() accepts.
void run_columns(const Plan& plan, const ConvProblem& problem, const void* src, const ColumnWeights& wei,
                 const void* bias, void* dst, void* scratch, const Parallel& parallel);

}  // namespace ortconv::kernels

// Turns rows of positions into rows of channels, and back: the step between NCX buffers and NXC tensors.
//
// A new kernel supplies one function of type TransposeFn in a file named after its ISA and one row in kernels.inc.
#pragma once

#include <cstdint>

#include "base/arch.h"

namespace ortconv::kernels {

// dst[j * dst_stride + i] = src[i * src_stride + j] + bias[i]   for 0 <= i < rows, 0 <= j < cols.
//
// bias may be null. Reads and writes nothing else; no alignment is needed.
using TransposeFn = void (*)(const float* src, int64_t src_stride, int64_t rows, int64_t cols, const float* bias,
                             float* dst, int64_t dst_stride);

struct TransposeKernel {
  const char* name;
  TransposeFn run;
};

// The best kernel for these flags; the portable one when no other fits.
const TransposeKernel& get_transpose_kernel(const ArchFlags& arch);

}  // namespace ortconv::kernels

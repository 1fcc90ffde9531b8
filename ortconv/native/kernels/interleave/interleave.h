// Interleaves the output phases of one row into contiguous memory and adds the bias.
#pragma once

#include <cstdint>

#include "base/arch.h"

namespace ortconv::kernels {

// dst[i * phases + p] = src[p][i] + bias   for 0 <= i < n, 0 <= p < phases.
using InterleaveFn = void (*)(const float* const* src, int64_t phases, int64_t n, float bias, float* dst);

struct InterleaveKernel {
  const char* name;
  InterleaveFn run;
};

// The best kernel for these flags; the portable one when no other fits.
const InterleaveKernel& get_interleave_kernel(const ArchFlags& arch);

}  // namespace ortconv::kernels

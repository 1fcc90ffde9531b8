// Interleaves the output phases of one row into contiguous memory and adds the bias.
#pragma once

#include <cstdint>

#include "base/arch.h"

namespace ortconv::kernels {

// dst[i * phases + p] = src[p][i] + bias   for 0 <= i < n, 0 <= p < phases.
//
// kStream hints that the destination is too large to stay in the caches, so a kernel may write past them. A thread that
// did so must call `fence` before others read what it wrote.
enum class Store { kCached, kStream };
using InterleaveFn = void (*)(const float* const* src, int64_t phases, int64_t n, float bias, float* dst, Store store);

struct InterleaveKernel {
  const char* name;
  InterleaveFn run;
  void (*fence)();
};

// The best kernel for these flags; the portable one when no other fits.
const InterleaveKernel& get_interleave_kernel(const ArchFlags& arch);

}  // namespace ortconv::kernels

// Writes cache lines past the caches, without fetching them.
//
// A new kernel supplies one function in a file named after its ISA and one row in kernels.inc.
#pragma once

#include <cstdint>

#include "base/arch.h"

namespace ortconv::kernels {

constexpr int64_t kLineBytes = 64;

// Writes so many bytes from `out` on, whole lines: those of `in`, or its first line again and again. `in` needs no
// alignment.
struct WriteLinesArgs {
  const void* in;
  bool again;
  int64_t bytes;
  void* out;
};

struct WriteLinesKernel {
  const char* name;
  void (*run)(const WriteLinesArgs&);
};

// The best kernel for these flags; the portable one when no other fits, which may write through the caches.
const WriteLinesKernel& get_write_lines_kernel(const ArchFlags& arch);

}  // namespace ortconv::kernels

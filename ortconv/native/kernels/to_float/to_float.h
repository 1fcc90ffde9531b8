// Runs of 16-bit floats to float, exactly.
//
// A new kernel supplies the two functions in a file named after its ISA and one row in kernels.inc.
#pragma once

#include <cstdint>

#include "base/arch.h"
#include "base/float16.h"

namespace ortconv::kernels {

// dst[i] = src[i]   for 0 <= i < n. Reads and writes nothing else; no alignment is needed.
template <class T>
using ToFloatFn = void (*)(const T* src, int64_t n, float* dst);

struct ToFloatKernel {
  const char* name;
  ToFloatFn<Float16> f16;
  ToFloatFn<Bfloat16> bf16;

  void run(const Float16* src, int64_t n, float* dst) const { f16(src, n, dst); }
  void run(const Bfloat16* src, int64_t n, float* dst) const { bf16(src, n, dst); }
};

// The best kernel for these flags; the portable one when no other fits.
const ToFloatKernel& get_to_float_kernel(const ArchFlags& arch);

}  // namespace ortconv::kernels

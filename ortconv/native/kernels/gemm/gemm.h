// Register-blocked f32 GEMM microkernels over a shifted-row B.
//
// The B operand is never materialised per tap: row (tap, k) of B starts at b + tap_offset[tap] + k * ldb, so the
// shifted copies that a convolution multiplies are views of one buffer.
//
// A new kernel supplies one function of type GemmFn in a file named after its ISA and one row in kernels.inc.
#pragma once

#include <cstdint>

#include "base/arch.h"

namespace ortconv::kernels {

// c[r][n] (+)= sum over tap, k of a[tap][k][r] * b[tap_offset[tap] + k * ldb + n]   for r < rows, n < cols.
//
// rows: 1..mr of the kernel; a is packed contiguously [taps][k][rows].
// cols: a positive multiple of kGemmColumns; b is readable that far in every row. b and c need no alignment.
// accumulate: add to what c holds; otherwise c is overwritten.
// Every element is summed in the same order (tap, then k) whatever rows and cols are.
struct GemmArgs {
  int64_t rows, cols;
  int64_t taps, k;  // both at least 1
  const float* a;
  const float* b;
  const int64_t* tap_offset;
  int64_t ldb;
  float* const* c;  // one pointer per row
  bool accumulate;
  bool far_a = false;  // a is likely in no cache: a hint, which kernels may ignore
};
using GemmFn = void (*)(const GemmArgs&);

constexpr int64_t kGemmColumns = 16;
constexpr int64_t kMaxRows = 16;  // no kernel has a larger mr

struct GemmKernel {
  const char* name;
  int64_t mr;  // most rows of one call
  int64_t nr;  // columns of the register tile at mr rows
  GemmFn run;
};

// The best kernel for these flags; the portable one when no other fits.
const GemmKernel& get_gemm_kernel(const ArchFlags& arch);

}  // namespace ortconv::kernels

// What a kernel for compressed matrices supplies: the functions of MatMulNbitsKernel in a file named after its ISA, and
// one row in kernels.inc.
#pragma once

#include <cstdint>

#include "base/arch.h"
#include "base/math.h"
#include "kernels/matmul_nbits/matmul_nbits.h"

namespace ortconv::kernels {

// y[i][n - first] (+)= sum over begin <= k < end of x[i][k] * matrix[n][k]   for 0 <= i < m, first <= n < last.
// Where begin is not 0, the sum is added to what y holds.
struct DotArgs {
  const QuantizedMatrix* matrix;
  int64_t first, last;
  int64_t begin, end;  // multiples of kDotGranule, or the end of the row
  int64_t m;           // 1..dot_rows
  const float* x;      // as the kernel arranged these rows; 64-byte aligned
  float* const* y;     // one pointer per row
};

// out[k - begin][n - first] = matrix[n][k]   for first <= n < last, begin <= k < end, and 0 up to the next column
// that is a multiple of kGemmColumns.
struct UnpackArgs {
  const QuantizedMatrix* matrix;
  int64_t first, last;
  int64_t begin, end;
  float* out;  // 64-byte aligned
};
constexpr int64_t kPanelColumns = 32;
// Where a range of k to unpack begins: at a multiple of this.
constexpr int64_t kPanelDepth = 256;

constexpr int64_t kDotGranule = 128;
// Numbers that an arranged row of x has.
inline int64_t arranged_depth(int64_t k) { return align_up(k, kDotGranule); }

struct MatMulNbitsKernel {
  const char* name;
  int64_t dot_rows;  // most rows of x of one call
  // Most rows of x for which dot products are the fastest way.
  int64_t (*most_dots)(const QuantizedMatrix& matrix);
  // Copies m rows of x as dots() reads them.
  void (*arrange)(const QuantizedMatrix& matrix, int64_t m, const float* x, float* out);
  void (*dots)(const DotArgs&);
  void (*unpack)(const UnpackArgs&);
};

// The best kernel for these flags; the portable one when no other fits.
const MatMulNbitsKernel& get_matmul_nbits_kernel(const ArchFlags& arch);

}  // namespace ortconv::kernels

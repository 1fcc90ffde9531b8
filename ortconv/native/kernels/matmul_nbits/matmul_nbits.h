// MatMul with weight-only quantization: int4 or int8 weights, or indices of a codebook, with a scale and optionally a
// zero point for every block of a row. The matrix is read in quantized form, so multiplying a single row takes the time
// to read it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/arch.h"
#include "base/parallel.h"
#include "base/problem.h"
#include "kernels/element.h"

namespace ortconv::kernels {

// 4-bit integers are packed as in ONNX: two to a byte, the one of even index in the low four bits. Rows are packed
// without gaps: where they have an odd length, every other row begins in the upper half of a byte. kTable is 4-bit
// indices of a table.
enum class Code { kU8, kS8, kU4, kS4, kTable };

// The matrix of (code[n][k] - zero[n][k / block]) * scale[n][k / block] or, with a table, of table[code[n][k]] *
// scale[n][k / block]. Nothing needs an alignment.
struct QuantizedMatrix {
  Code code;
  int64_t n, k;   // rows, and numbers in a row
  int64_t block;  // how many of these share a scale; divides k
  const void* codes;
  const float* scales;           // [n][k / block]
  const void* zeros = nullptr;   // the same type and packing as codes, [n][k / block]; null: all are 0
  const float* table = nullptr;  // kTableNumbers of kTable, which has no zeros
};
constexpr int kTableNumbers = 16;

// Rows of y that multiply the same rows of the matrix: `width` rows from `first` on.
struct RowGroup {
  int64_t first;
  int64_t begin, end;  // in RowGroups::order
};

// Which rows of y are computed, and from which rows of x.
struct RowGroups {
  std::vector<RowGroup> groups;
  int64_t width;               // columns of y
  std::vector<int64_t> order;  // rows of y; empty: order[i] is i
  int64_t sharing = 1;         // row i of y is computed from row i / sharing of x

  // All m rows of y, multiplied by the whole matrix.
  static RowGroups all(int64_t m, const QuantizedMatrix& matrix) { return {{{0, 0, m}}, matrix.n, {}, 1}; }

  int64_t row(int64_t i) const { return order.empty() ? i : order[i]; }
};

// y[i][n] = sum over k of x[i / sharing][k] * matrix[first + n][k]   for every row i of every group, 0 <= n < width.
//
// T: float, Float16 or Bfloat16. A code less its zero point is exact; everything else is computed in float, and rounded
// to T at the end. `scratch` is 64-byte aligned and has scratch_bytes.
template <class T>
void matmul_nbits(const ArchFlags& arch, const QuantizedMatrix& matrix, const RowGroups& rows, const T* x, T* y,
                  void* scratch, const Parallel& parallel);
template <class T>
size_t matmul_nbits_scratch_bytes(const ArchFlags& arch, const QuantizedMatrix& matrix, const RowGroups& rows,
                                  int threads);

}  // namespace ortconv::kernels

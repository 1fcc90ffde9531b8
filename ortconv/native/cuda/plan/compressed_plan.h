// Plans of MatMulNBits, weight-only quantization: int4 or int8 weights, or 4-bit codebook indices, with a scale and
// optionally a zero point for every block of a row.
//
// With few rows of X, reading the weights dominates, so the kernels read them in quantized form: compressed_dots
// computes dot products in float, compressed_mma uses tensor cores for 16-bit floats. With many rows, the weights are
// dequantized into scratch and multiplied by the GEMM of convolutions. The difference of weight and zero point is
// exact, and sums are float. Dequantized weights are rounded to the type of X, or to TF32 where that is used;
// compressed_dots does not round them.
#pragma once

#include "cuda/plan/plan.h"
#include "kernels/matmul_nbits/matmul_nbits.h"

namespace ortconv::cuda {

struct CompressedProblem {
  kernels::Code code;
  int64_t m, n, k;                // X [m, k], weights [n, k], Y [m, n]; k is at least 1
  int64_t block;                  // divides k
  bool has_zeros;                 // never with a codebook
  bool x_aligned, codes_aligned;  // whether the tensor is aligned to 16 bytes

  // With an expert index, row i of Y multiplies row i / sharing of X by matrix index[i] of `matrices`, which lie one
  // after the other; a row whose index is out of range is zeros. Each row reads its own matrix.
  bool has_index = false;
  int64_t matrices = 1, sharing = 1;
};

// Plans one run. Launches use X, Codes, Scales, Zeros, Table, Index, Y and Scratch. Tensors are aligned to their
// elements.
Plan plan_compressed(DataType dtype, const CompressedProblem& problem, const Device& device, const Options& options);

// One kernel each, whatever the number of rows; false where type or sizes are not supported. Only plan_dots supports an
// index.
Plan plan_dots(DataType dtype, const CompressedProblem& problem, const Device& device);
bool plan_mma(DataType dtype, const CompressedProblem& problem, const Device& device, Plan* plan);
bool plan_unpacked(DataType dtype, const CompressedProblem& problem, const Device& device, const Options& options,
                   Plan* plan);

}  // namespace ortconv::cuda

// Plans of products by compressed weights: small integers, or codes of a table, with a scale and perhaps a zero point
// for every block of a row.
//
// Few rows of X take the time to read the weights, so kernels read them as they are stored: one forms dot products in
// float, another, of 16-bit floats, products on tensor cores. For many rows the weights are unpacked into scratch for
// the products that convolutions are made of, which then take most of the time. The difference of a code and its zero
// point is exact, and sums are formed in float; weights are rounded to the type of X, or with TF32 to that, but in
// dots.
#pragma once

#include "cuda/plan/plan.h"
#include "kernels/matmul_nbits/matmul_nbits.h"

namespace ortconv::cuda {

struct CompressedProblem {
  kernels::Code code;
  int64_t m, n, k;                // X [m, k], weights [n, k], Y [m, n]; k is at least 1
  int64_t block;                  // divides k
  bool has_zeros;                 // never of codes of a table
  bool x_aligned, codes_aligned;  // whether the tensor lies at a multiple of 16 bytes

  // Whether row i of Y is a product of row i / sharing of X and matrix index[i] of so many, or zeros where there is no
  // such matrix. These lie one after the other, and each of the m rows takes the time to read the one that it names.
  bool has_index = false;
  int64_t matrices = 1, sharing = 1;
};

// One run. Launches use X, Codes, Scales, Zeros, Table, Index, Y and Scratch. All tensors are aligned to the size of
// their elements.
Plan plan_compressed(DataType dtype, const CompressedProblem& problem, const Device& device, const Options& options);

// Each way, whatever the number of rows; false where type or sizes do not suit. Only dots know of an index.
Plan plan_dots(DataType dtype, const CompressedProblem& problem, const Device& device);
bool plan_mma(DataType dtype, const CompressedProblem& problem, const Device& device, Plan* plan);
bool plan_unpacked(DataType dtype, const CompressedProblem& problem, const Device& device, const Options& options,
                   Plan* plan);

}  // namespace ortconv::cuda

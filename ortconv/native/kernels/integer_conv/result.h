// The operands of a convolution of 8-bit integers in either direction whose sums become a result as integer_result.h
// says.
#pragma once

#include <cstdint>
#include <vector>

#include "base/problem.h"
#include "kernels/integer_conv/integer_conv.h"
#include "kernels/integer_result/integer_result.h"

namespace ortconv::kernels {

struct IntegerResultOperands {
  Bytes x;
  int32_t x_zero;
  float x_scale;
  const float* w_scales;
  int64_t w_scale_count;  // 1 or oc
  const float* bias;      // null: zeros
  const void* residual;   // null: none
  float residual_scale;
  int32_t residual_zero;
  void* y;
  ResultType type;
  float y_scale;
  int32_t y_zero;
  // Where the result is affine: of each output channel.
  const float *factors = nullptr, *addends = nullptr;
  const float* biases = nullptr;  // there, one for each element of an image, in the place of `bias`; null: none
  // For each position of a channel the end of those from it on whose biases are equal, in every channel, which then
  // need not be read; null: not known.
  const int32_t* equal_biases = nullptr;
};

// The equal_biases of so many channels and positions.
std::vector<int32_t> find_equal_biases(const float* biases, int64_t channels, int64_t positions);

// What becomes of a row of exact sums of output channel m, but for what differs between rows.
IntegerResultArgs integer_result_args(const ConvProblem& problem, const IntegerResultOperands& operands, int64_t m);

// integer_conv() to such a result. `scratch` is 64-byte aligned and has integer_conv_scratch_bytes.
void integer_conv_result(const ConvProblem& problem, const IntegerConvLayout& layout, const IntegerConvWeights& weights,
                         const IntegerResultKernel& result, const IntegerResultOperands& operands, void* scratch,
                         const Parallel& parallel);

// The same for a problem without a layout: slow, but copies nothing.
void integer_conv_result_direct(const ConvProblem& problem, const IntegerConvFilter& filter,
                                const IntegerResultKernel& result, const IntegerResultOperands& operands,
                                const Parallel& parallel);

// What a run does, in counts that take time: dot products of whole vectors of lanes, lanes of the source that are
// arranged, calls for a row of outputs, and work items of a transposed convolution.
struct IntegerWork {
  double dots, arranged, rows, items;
};
IntegerWork integer_conv_work(const ConvProblem& problem, const IntegerConvLayout& layout,
                              const IntegerConvKernel& kernel, double excess_share);

// How many times as long a tile takes with such a share of lanes that exceed.
inline double passes_of(double excess_share) { return 1 + 1.5 * excess_share; }

// The rows that a kernel computes for so many output channels of a group: the last panel has a quarter, a half or all
// of its rows.
int64_t computed_rows(const IntegerConvKernel& kernel, int64_t outputs);

}  // namespace ortconv::kernels

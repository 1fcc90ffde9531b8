// From exact sums of a convolution of 8-bit integers to a row of its result: scales them, adds bias and residual,
// activates, and quantizes or stays float.
//
// A new kernel compiles integer_result_loops.h in a file named after its ISA, and adds one row to kernels.inc.
#pragma once

#include <cstdint>

#include "base/activation.h"
#include "base/arch.h"

namespace ortconv::kernels {

// The element type of a result.
enum class ResultType { kFloat, kUint8, kInt8 };

// y[j * phases + p] = quantize(activation(sums[p][j] * scale + bias + (residual - residual_zero) * residual_scale)) for
// the first `count` elements of y. Every operation is rounded to float, in this order. quantize(v) is v / y_scale
// rounded to the nearest integer, ties to even, plus y_zero, saturated; a float result has none, and no residual.
//
// Where is_affine, there is one phase and no residual, and y[j] = quantize(activation(...) * factor + addend).
struct IntegerResultArgs {
  static constexpr int64_t kReadBeyond = 16;

  const float* const* sums;  // integers; several rows are read to the next multiple of kReadBeyond
  int64_t phases, count;
  float scale, bias;
  Activation activation;
  bool is_affine;
  float factor, addend;
  const float* biases;   // where is_affine: one for each element, in the place of `bias`; null: none
  const void* residual;  // elements of the type of y, as y lies; null: none
  float residual_scale;
  int32_t residual_zero;
  void* y;
  float y_scale;
  int32_t y_zero;

  // Whether nothing between the bias and the quantization to bytes has an effect; there is no residual. A range that
  // is at least as wide as that of the bytes has none.
  bool is_plain(ResultType type) const {
    const float least = static_cast<float>((type == ResultType::kInt8 ? -128 : 0) - y_zero), most = least + 255;
    return type != ResultType::kFloat && activation.slope == 1 && activation.hard_sigmoid.is_one() &&
           activation.minimum / y_scale <= least && activation.maximum / y_scale >= most &&
           (!is_affine || (factor == 1 && addend == 0));
  }
};

struct IntegerResultKernel {
  const char* name;
  void (*run[3])(const IntegerResultArgs&);  // to each ResultType
  // out[i] = x[i] - zero for bytes that are signed or not, as floats.
  void (*widen)(const uint8_t* x, bool is_signed, int32_t zero, int64_t count, float* out);

  void operator()(ResultType type, const IntegerResultArgs& args) const { run[static_cast<int>(type)](args); }
};

// The best kernel for these flags; the portable one when no other fits.
const IntegerResultKernel& get_integer_result_kernel(const ArchFlags& arch);

}  // namespace ortconv::kernels

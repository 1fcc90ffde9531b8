// From a node's attributes and the shapes of its inputs to a ConvProblem: every check and all size arithmetic of the
// ops of org.ortconv. Whatever is refused throws Error with the attribute or input, the value found and the
// values allowed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/activation.h"
#include "base/dtype.h"
#include "base/problem.h"

namespace ortconv {

// Largest size, stride, padding or extent. Sums of a few such numbers stay within int64, so the kernels need not check.
constexpr int64_t kMaxExtent = (int64_t{1} << 61) - 1;

using Shape = std::vector<int64_t>;

enum class ConvOp { kConvTranspose, kConvTransposeToShape, kConv, kConvTransposeAdd };

enum class AutoPad { kNotset, kSameUpper, kSameLower };  // as the attribute counts them

// The attributes as they stand on the node.
struct ConvAttributes {
  ConvOp op = ConvOp::kConvTranspose;
  std::vector<int64_t> strides;
  std::vector<int64_t> dilations;
  int64_t group = 1;
  std::vector<int64_t> x_perm, w_perm, y_perm;
  std::vector<int64_t> pads;            // all begins, then all ends; `pads_begin` (begins only) for ToShape
  std::vector<int64_t> output_padding;  // where transposed()
  AutoPad auto_pad = AutoPad::kNotset;  // where has_auto_pad()
  int64_t accumulation_type = 0;
  Activation activation;  // the identity for types that do not accumulate in float

  int ndims() const { return static_cast<int>(strides.size()); }
  bool transposed() const { return op != ConvOp::kConv; }
  bool has_auto_pad() const { return op == ConvOp::kConv || op == ConvOp::kConvTransposeToShape; }
  const char* pads_name() const { return op == ConvOp::kConvTransposeToShape ? "pads_begin" : "pads"; }
};

// Refuses attributes that are out of range or do not fit each other or the element type.
void check_attributes(const ConvAttributes& attributes, DataType dtype);

// Parses the attribute; refuses what is none of the three.
AutoPad parse_auto_pad(int64_t value);

// From slope, minimum and maximum; refuses any other list.
Activation parse_activation(const std::vector<float>& values);
// From alpha and beta; an empty list is one without effect. Refuses any other list.
HardSigmoid parse_hard_sigmoid(const std::vector<float>& values);

// The part of the problem that the weights and attributes alone decide: ndims, g, oc, ic, ker, stride, dilation, the
// weight strides and the activation.
ConvProblem weight_problem(const ConvAttributes& attributes, const Shape& w);

// Completes weight_problem's result for one run. `bias` is null when the input is absent; `output_shape` is null but
// for TransposedConvolutionToShape.
void complete_problem(const ConvAttributes& attributes, const Shape& x, const Shape* bias,
                      const std::vector<int64_t>* output_shape, ConvProblem* problem);

// Refuses a residual that has not the shape of Y.
void check_residual(const ConvAttributes& attributes, const ConvProblem& problem, const Shape& residual);

// The dims of Y in memory order.
Shape output_dims(const ConvAttributes& attributes, const ConvProblem& problem);

}  // namespace ortconv

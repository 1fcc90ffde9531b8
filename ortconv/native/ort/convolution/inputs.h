// The inputs and attributes of the convolutions: X, W, output_shape (TransposedConvolutionToShape) or R
// (TransposedConvolutionAdd), and an optional B.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ops/conv_params.h"
#include "ort/abi/abi.h"
#include "ort/abi/attributes.h"
#include "ort/abi/infer_shape.h"

namespace ortconv {

struct ConvIndices {
  size_t x = 0, w = 1, output_shape = 2, residual = 2, b;

  explicit ConvIndices(ConvOp op) : b(op == ConvOp::kConvTransposeToShape || op == ConvOp::kConvTransposeAdd ? 3 : 2) {}
};

// Those of a run; null where the node has none. Throws Error when ONNX Runtime reports one, as everything here.
struct ConvInputs {
  const OrtValue* x;
  const OrtValue* w;
  const OrtValue* output_shape;
  const OrtValue* residual;
  const OrtValue* b;

  ConvInputs(const OrtApi* api, const OrtKernelContext* context, ConvOp op);
};

// The elements of an output_shape, which lies in memory of the host.
std::vector<int64_t> output_shape_of(const OrtApi* api, const OrtValue* tensor);

// The attributes of a node of this family, not checked.
ConvAttributes read_attributes(ConvOp op, const AttributeSource& source);

// Tells ONNX Runtime the shape of Y, of element type `result`, of a convolution with checked attributes: known where
// every dimension is, but for the batch, which may be symbolic. Throws Error otherwise.
void infer_conv_shape(const OrtApi* api, const ConvAttributes& attributes, const InputShape& x, const InputShape& w,
                      int result, OrtShapeInferContext* context);

}  // namespace ortconv

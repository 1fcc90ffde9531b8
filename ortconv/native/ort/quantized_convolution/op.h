// TransposedConvolutionIntegerToFloat, QLinearTransposedConvolution, QLinearTransposedConvolutionAdd and
// QLinearConvolution as ONNX Runtime sees them.
#pragma once

#include <memory>
#include <string>

#include "base/dtype.h"
#include "ort/abi/custom_op.h"
#include "ort/quantized_convolution/inputs.h"
#include "ort/settings.h"

namespace ortconv {

// A node as ONNX Runtime asks for its kernel, with the element types of X, W and Y.
struct QuantizedCreation {
  const OrtApi* api;
  const OrtKernelInfo* info;
  QuantizedOp op;
  DataType x, w, y;
  const Settings& settings;
  std::string subject;  // how messages name the node
};

// Reads and checks the attributes, and packs the weights when they and their zero point are constant.
std::unique_ptr<Kernel> make_quantized_kernel(const QuantizedCreation& creation);
std::unique_ptr<Kernel> make_cuda_quantized_kernel(const QuantizedCreation& creation);

// One for each provider that has kernels, op, and element types of X, W and Y.
CustomOps quantized_ops(const OrtApi* api, const Settings& settings);

}  // namespace ortconv

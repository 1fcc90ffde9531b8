// ConvIntegerToFloat as ONNX Runtime sees it.
#pragma once

#include <memory>
#include <string>

#include "base/dtype.h"
#include "ort/abi/custom_op.h"
#include "ort/settings.h"

namespace ortconv {

// A node as ONNX Runtime asks for its kernel, with the element types of X and W.
struct IntegerConvCreation {
  const OrtApi* api;
  const OrtKernelInfo* info;
  DataType x, w;
  std::string subject;  // how messages name the node
};

// Both read and check the attributes, and pack the weights when they and their zero points are constant. The CUDA
// kernel also compiles what a run needs when all sizes are known.
std::unique_ptr<Kernel> make_integer_conv_kernel(const IntegerConvCreation& creation);
std::unique_ptr<Kernel> make_cuda_integer_conv_kernel(const IntegerConvCreation& creation);

// One for each provider that has kernels, element type of X and element type of W.
CustomOps conv_integer_ops(const OrtApi* api, const Settings& settings);

}  // namespace ortconv

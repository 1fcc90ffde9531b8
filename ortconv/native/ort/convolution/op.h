// Convolution, TransposedConvolution, TransposedConvolutionToShape and TransposedConvolutionAdd as ONNX Runtime sees
// them.
#pragma once

#include <memory>
#include <string>

#include "base/dtype.h"
#include "ops/conv_params.h"
#include "ort/abi/custom_op.h"
#include "ort/settings.h"

namespace ortconv {

// A node as ONNX Runtime asks for its kernel.
struct ConvCreation {
  const OrtApi* api;
  const OrtKernelInfo* info;
  ConvOp op;
  DataType dtype;
  Settings settings;
  std::string subject;  // how messages name the node
};

// Both read and check the attributes, and pack the weights when they are constant. The CUDA kernel also compiles what a
// run needs when all sizes are known.
std::unique_ptr<Kernel> make_conv_kernel(const ConvCreation& creation);
std::unique_ptr<Kernel> make_cuda_conv_kernel(const ConvCreation& creation);

// The element types of the CUDA kernel.
constexpr DataType kCudaTypes[] = {DataType::kFloat, DataType::kFloat16, DataType::kBfloat16};

// One for each op, provider and element type.
CustomOps conv_ops(const OrtApi* api, const Settings& settings);

}  // namespace ortconv

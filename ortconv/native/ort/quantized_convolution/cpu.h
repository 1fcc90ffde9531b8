// Convolutions of 8-bit integers on the CPU, whatever nodes of a graph state them.
#pragma once

#include <memory>
#include <string>

#include "base/dtype.h"
#include "ops/conv_params.h"
#include "ops/convolution.h"
#include "ort/abi/kernel.h"
#include "ort/quantized_convolution/inputs.h"

namespace ortconv {

struct CpuQuantizedConv {
  QuantizedOp op;
  DataType x, w, y;
  ConvAttributes attributes;  // checked, in ONNX's layout
  QuantizedReader reader;     // its constants live as long as the kernel
  ConvOptions options;
};

// Packs the weights when they and their zero point are constant. `subject` names the node in messages.
std::unique_ptr<Kernel> make_quantized_kernel(const OrtApi* api, const std::string& subject, CpuQuantizedConv conv);

}  // namespace ortconv

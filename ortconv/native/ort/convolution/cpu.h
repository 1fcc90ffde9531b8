// Convolutions on the CPU, whatever node of a graph states them.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/dtype.h"
#include "ops/conv_params.h"
#include "ops/convolution.h"
#include "ort/abi/kernel.h"
#include "ort/convolution/inputs.h"

namespace ortconv {

struct CpuConv {
  DataType dtype;
  ConvAttributes attributes;
  ConvReader reader;           // its constants live as long as the kernel
  std::optional<Sizes> sizes;  // of all runs, where they are known
  ConvOptions options;
};

// Checks the attributes, and packs the weights when they are constant. `subject` names the node in messages.
std::unique_ptr<Kernel> make_conv_kernel(const OrtApi* api, const std::string& subject, CpuConv conv);

}  // namespace ortconv

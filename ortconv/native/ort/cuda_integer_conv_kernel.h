// The kernel of ConvIntegerToFloat for the CUDA execution provider.
#pragma once

#include <memory>

#include "ort/providers.h"

namespace ortconv {

// Reads and checks the attributes, packs the weights when they and their zero points are constant, and compiles what a
// run needs when all sizes are known.
std::unique_ptr<Kernel> make_cuda_integer_conv_kernel(const IntegerConvCreation& creation);

}  // namespace ortconv

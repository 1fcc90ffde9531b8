// The kernel of ConvIntegerToFloat for the CPU.
#pragma once

#include <memory>

#include "ort/providers.h"

namespace ortconv {

// Reads and checks the attributes, and packs the weights when they and their zero points are constant.
std::unique_ptr<Kernel> make_integer_conv_kernel(const IntegerConvCreation& creation);

}  // namespace ortconv

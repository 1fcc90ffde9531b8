// The kernel of the CPU execution provider.
#pragma once

#include <memory>

#include "ort/providers.h"

namespace ortconv {

// Reads and checks the attributes, and packs the weights when they are constant.
std::unique_ptr<Kernel> make_conv_kernel(const Creation& creation);

}  // namespace ortconv

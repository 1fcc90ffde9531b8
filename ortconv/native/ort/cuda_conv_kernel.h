// The kernel of the CUDA execution provider.
#pragma once

#include <memory>

#include "ort/providers.h"

namespace ortconv {

constexpr DataType kCudaTypes[] = {DataType::kFloat, DataType::kFloat16, DataType::kBfloat16};

// Reads and checks the attributes, packs the weights when they are constant, and compiles what a run needs when all
// sizes are known.
std::unique_ptr<Kernel> make_cuda_conv_kernel(const Creation& creation);

}  // namespace ortconv

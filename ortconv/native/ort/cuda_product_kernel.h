// The kernel of MatMulCompressed of the CUDA execution provider.
#pragma once

#include <memory>

#include "ort/providers.h"

namespace ortconv {

// Compiles what a run needs when all sizes are known.
std::unique_ptr<Kernel> make_cuda_product_kernel(const ProductCreation& creation);

}  // namespace ortconv

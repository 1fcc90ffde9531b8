// The kernels of products by compressed weights of the CUDA execution provider.
#pragma once

#include <memory>

#include "ort/providers.h"

namespace ortconv {

// It compiles what a run needs when all sizes are known.
std::unique_ptr<Kernel> make_cuda_product_kernel(const ProductCreation& creation);

}  // namespace ortconv

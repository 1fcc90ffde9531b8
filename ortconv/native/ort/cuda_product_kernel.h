// The kernels of MatMulCompressed and GatherMatMulCompressed of the CUDA execution provider.
#pragma once

#include <memory>

#include "ort/providers.h"

namespace ortconv {

// They compile what a run needs when all sizes are known.
std::unique_ptr<Kernel> make_cuda_product_kernel(const ProductCreation& creation);
std::unique_ptr<Kernel> make_cuda_gather_kernel(const ProductCreation& creation);

}  // namespace ortconv

// The kernels of MatMulCompressed and GatherMatMulCompressed for the CPU.
#pragma once

#include <memory>

#include "ort/providers.h"

namespace ortconv {

std::unique_ptr<Kernel> make_product_kernel(const ProductCreation& creation);
std::unique_ptr<Kernel> make_gather_kernel(const ProductCreation& creation);

}  // namespace ortconv

// The kernels of products by compressed weights for the CPU.
#pragma once

#include <memory>

#include "ort/providers.h"

namespace ortconv {

std::unique_ptr<Kernel> make_product_kernel(const ProductCreation& creation);

}  // namespace ortconv

#include "ort/providers.h"

#include <iterator>

#include "ort/conv_kernel.h"
#include "ort/cuda_conv_kernel.h"
#include "ort/cuda_integer_conv_kernel.h"
#include "ort/cuda_product_kernel.h"
#include "ort/integer_conv_kernel.h"
#include "ort/product_kernel.h"

namespace ortconv {

const std::vector<Provider>& providers() {
  static const auto& all = *new std::vector<Provider>{
      {"CPUExecutionProvider",
       {std::begin(kDataTypes), std::end(kDataTypes)},
       make_conv_kernel,
       make_product_kernel,
       make_integer_conv_kernel},
      {"CUDAExecutionProvider",
       {std::begin(kCudaTypes), std::end(kCudaTypes)},
       make_cuda_conv_kernel,
       make_cuda_product_kernel,
       make_cuda_integer_conv_kernel},
  };
  return all;
}

}  // namespace ortconv

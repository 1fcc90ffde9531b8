#include "ort/providers.h"

#include <iterator>

namespace ortconv {

const std::vector<Provider>& providers() {
  static const auto& all = *new std::vector<Provider>{
      {"CPUExecutionProvider",
       {std::begin(kDataTypes), std::end(kDataTypes)},
       make_conv_kernel,
       make_matmul_kernel,
       make_integer_conv_kernel,
       make_fourier_kernel,
       make_quantized_kernel},
      {"CUDAExecutionProvider",
       {std::begin(kCudaTypes), std::end(kCudaTypes)},
       make_cuda_conv_kernel,
       make_cuda_matmul_kernel,
       make_cuda_integer_conv_kernel,
       make_cuda_fourier_kernel,
       make_cuda_quantized_kernel},
  };
  return all;
}

}  // namespace ortconv

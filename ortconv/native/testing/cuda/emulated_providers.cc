// A library for tests in real sessions of ONNX Runtime: the kernels of the CUDA provider run in the CPU provider, on
// the fake driver, whose launches the emulator carries out.
#include <algorithm>
#include <iterator>

#include "ort/providers.h"

namespace ortconv {

const std::vector<Provider>& providers() {
  static const auto& all = *[] {
    const std::vector<DataType> emulated(std::begin(kCudaTypes), std::end(kCudaTypes));
    std::vector<DataType> others;
    for (const DataType dtype : kDataTypes) {
      if (std::find(emulated.begin(), emulated.end(), dtype) == emulated.end()) others.push_back(dtype);
    }
    return new std::vector<Provider>{
        {"CPUExecutionProvider", others, make_conv_kernel, nullptr, nullptr, nullptr, nullptr},
        {"CPUExecutionProvider", emulated, make_cuda_conv_kernel, make_cuda_matmul_kernel,
         make_cuda_integer_conv_kernel, make_cuda_fourier_kernel, make_cuda_quantized_kernel}};
  }();
  return all;
}

}  // namespace ortconv

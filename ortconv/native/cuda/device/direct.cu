// Direct convolution of any problem, one thread per output.

#include "cuda/device/direct.h"

KERNEL(direct, ortconv::cuda::Problem, 256, 2) {
  using namespace ortconv::cuda;
  convolve(params, static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x,
           static_cast<long long>(gridDim.x) * blockDim.x);
}

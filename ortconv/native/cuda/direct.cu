// Any problem, one thread per output.

#include "cuda/direct.h"

extern "C" __global__ void direct(const ortconv::cuda::Problem problem) {
  using namespace ortconv::cuda;
  convolve(problem, static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x,
           static_cast<long long>(gridDim.x) * blockDim.x);
}

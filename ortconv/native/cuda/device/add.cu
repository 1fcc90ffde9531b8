// Adds a residual of the same layout to dst, then activates.

#include "cuda/device/device.h"
#include "cuda/params/convolution.h"

KERNEL(add, ortconv::cuda::Add, 256, 4) {
  using namespace ortconv::cuda;
  const Element* const residual = static_cast<const Element*>(params.residual);
  Element* const dst = static_cast<Element*>(params.dst);
  const long long step = static_cast<long long>(gridDim.x) * blockDim.x;
  for (long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x; i < params.count; i += step) {
    dst[i] = finish(to_float(dst[i]) + to_float(residual[i]), params.slope, params.minimum, params.maximum);
  }
}

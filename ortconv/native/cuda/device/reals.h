// The numbers of the Fourier kernels. ELEMENT is the type of the tensors, as in device.h, or 4 for double. DOUBLE says
// whether the kernels compute in double, as they always do for tensors of double, or in float.
#pragma once

#include "cuda/device/device.h"

namespace ortconv {
namespace cuda {

#if DOUBLE
typedef double Real;
#else
typedef float Real;
#endif

__device__ inline Real widen(Element value) {
#if ELEMENT == 4
  return value;
#else
  return to_float(value);
#endif
}

__device__ inline Element narrow(Real value) {
#if ELEMENT == 4
  return value;
#else
  return to_element(static_cast<float>(value));
#endif
}

}  // namespace cuda
}  // namespace ortconv

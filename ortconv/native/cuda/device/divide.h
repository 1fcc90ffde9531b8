// Division by divisors that the host prepares.
#pragma once

#include "cuda/device/device.h"
#include "cuda/params/convolution.h"

namespace ortconv {
namespace cuda {

// Returns n / divisor and sets n to the remainder.
__device__ inline int divide(int* n, const Divisor& by) {
  const unsigned quotient = (multiply_high(*n, by.factor) + *n) >> by.shift;
  *n -= static_cast<int>(quotient * by.divisor);
  return static_cast<int>(quotient);
}

}  // namespace cuda
}  // namespace ortconv

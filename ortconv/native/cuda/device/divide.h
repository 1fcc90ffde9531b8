// Division by numbers that are known before the launch.
#pragma once

#include "cuda/device/device.h"
#include "cuda/params/convolution.h"

namespace ortconv {
namespace cuda {

// Divides n, and leaves the remainder in it.
__device__ inline int divide(int* n, const Divisor& by) {
  const unsigned quotient = (multiply_high(*n, by.factor) + *n) >> by.shift;
  *n -= static_cast<int>(quotient * by.divisor);
  return static_cast<int>(quotient);
}

}  // namespace cuda
}  // namespace ortconv

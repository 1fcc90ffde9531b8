// The instructions that the kernels need by name, as inline PTX. The tests have the same functions for the CPU.
#pragma once

namespace ortconv {
namespace cuda {

__device__ inline float float_of_half(unsigned short bits) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
}

__device__ inline unsigned short half_of_float(float value) {
  unsigned short bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
}

}  // namespace cuda
}  // namespace ortconv

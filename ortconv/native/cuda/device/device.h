// Element types, their conversions, and the activation.
//
// ELEMENT is the type of X, W, B and Y: 0 float, 1 float16, 2 bfloat16; 3: float B, 8-bit integer X and W, signed
// according to X_SIGNED and W_SIGNED, and float Y or, if QUANTIZED, 8-bit integers, signed according to Y_SIGNED;
// 4: double, of the Fourier kernels alone (see reals.h). 16-bit floats are converted here because NVRTC does not
// include cuda_fp16.h.
#pragma once

#include "cuda/device/intrinsics.h"

namespace ortconv {
namespace cuda {

#if ELEMENT == 0 || ELEMENT == 3
typedef float Element;
#elif ELEMENT == 4
typedef double Element;
#else
typedef unsigned short Element;
#endif
#if ELEMENT != 3
typedef Element SrcElement, WeiElement;
#else
#if X_SIGNED
typedef signed char SrcElement;
#else
typedef unsigned char SrcElement;
#endif
#if W_SIGNED
typedef signed char WeiElement;
#else
typedef unsigned char WeiElement;
#endif
#endif
#if !QUANTIZED
typedef Element DstElement;
#elif Y_SIGNED
typedef signed char DstElement;
#else
typedef unsigned char DstElement;
#endif

__device__ inline float to_float(float value) { return value; }

__device__ inline float to_float(unsigned short bits) {
#if ELEMENT == 1
  return float_of_half(bits);
#else
  return __uint_as_float(static_cast<unsigned>(bits) << 16);
#endif
}

// Rounds to nearest even.
__device__ inline Element to_element(float value) {
#if ELEMENT == 0 || ELEMENT == 3 || ELEMENT == 4
  return value;
#elif ELEMENT == 1
  return half_of_float(value);
#elif __CUDA_ARCH__ >= 800
  return bfloat_of_float(value);
#else
  const unsigned bits = __float_as_uint(value);
  if (value != value) return static_cast<Element>(bits >> 16 | 0x40u);  // quiets NaN
  return static_cast<Element>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
#endif
}

#if ELEMENT != 4

__device__ inline bool is_finite(Element value) {
  const float wide = to_float(value);
  return wide - wide == 0;
}

// The epilogue of a sum: rounds to the type of dst, then activates if ACTIVATE. NaN passes through.
__device__ inline Element finish(float sum, float slope, float minimum, float maximum) {
  const Element rounded = to_element(sum);
#if ACTIVATE
  const float value = to_float(rounded);
  const float sloped = value < 0 ? value * slope : value;
  const float above = sloped < minimum ? minimum : sloped;
  return to_element(above > maximum ? maximum : above);
#else
  return rounded;
#endif
}

#endif

}  // namespace cuda
}  // namespace ortconv

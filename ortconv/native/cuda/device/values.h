// Factors and sums of direct and depthwise convolution, and zero points.
#pragma once

#include "cuda/device/device.h"
#include "cuda/params/convolution.h"

namespace ortconv {
namespace cuda {

#if ELEMENT == 3

typedef int Factor;
typedef unsigned Sum;  // wraps at 32 bits

__device__ inline int w_zero_of(const Quantization& q, long long channel) {
  return q.w_zero != nullptr ? static_cast<const WeiElement*>(q.w_zero)[channel * q.w_zero_step] : 0;
}

// Zero points of an output channel.
struct Values {
  int x_zero, w_zero;

  __device__ Values(const Problem& p, long long channel) {
    const Quantization& q = p.quantization;
    x_zero = q.x_zero != nullptr ? *static_cast<const SrcElement*>(q.x_zero) : 0;
    w_zero = w_zero_of(q, channel);
  }
  __device__ Factor of_src(SrcElement code) const { return code - x_zero; }
  __device__ Factor of_wei(WeiElement code) const { return code - w_zero; }
  // The initial value of a sum.
  __device__ Sum start(float) const { return 0; }
};

__device__ inline Sum multiply_add(Factor a, Factor b, Sum sum) { return sum + static_cast<unsigned>(a * b); }

#else

typedef float Factor;
typedef float Sum;

__device__ inline int w_zero_of(const Quantization&, long long) { return 0; }

struct Values {
  __device__ Values(const Problem&, long long) {}
  __device__ Factor of_src(SrcElement value) const { return to_float(value); }
  __device__ Factor of_wei(WeiElement value) const { return to_float(value); }
  __device__ Sum start(float bias) const { return bias; }
};

__device__ inline Sum multiply_add(Factor a, Factor b, Sum sum) { return fmaf(a, b, sum); }

#endif

}  // namespace cuda
}  // namespace ortconv

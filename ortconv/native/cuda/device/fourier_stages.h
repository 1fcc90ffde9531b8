// Fast Fourier transforms in shared memory.
#pragma once

#include "cuda/device/butterflies.h"
#include "cuda/params/fourier.h"

namespace ortconv {
namespace cuda {

// One stage of `count` columns, by all threads of the block.
template <int kRadix>
__device__ inline void run_stage(const FourierPass& p, int stride, int count, const Complex* from, Complex* to) {
  const int butterflies = p.length / kRadix;
  const Complex* const roots = static_cast<const Complex*>(p.roots);
  for (int i = threadIdx.x; i < count * butterflies; i += kFourierThreads) {
    const int column = i / butterflies, butterfly = i % butterflies;
    const int position = butterfly / stride;
    const Complex* const source = from + column * p.pitch + butterfly;
    Complex v[kRadix];
#pragma unroll
    for (int r = 0; r < kRadix; ++r) v[r] = source[r * butterflies];
    transform(v);
    Complex* const target = to + column * p.pitch + butterfly + position * stride * (kRadix - 1);
    target[0] = v[0];
#pragma unroll
    for (int k = 1; k < kRadix; ++k) target[k * stride] = multiply(v[k], roots[position * stride * k]);
  }
}

// Transforms `count` columns. Both arrays have room for them; returns the one that holds the result, once all threads
// may read it.
__device__ inline Complex* run_stages(const FourierPass& p, int count, Complex* from, Complex* to) {
  for (int s = 0; s < p.stages; ++s) {
    const int radix = p.stage[s].radix, stride = p.stage[s].stride;
    if (radix == 8) {
      run_stage<8>(p, stride, count, from, to);
    } else if (radix == 4) {
      run_stage<4>(p, stride, count, from, to);
    } else if (radix == 2) {
      run_stage<2>(p, stride, count, from, to);
    } else if (radix == 3) {
      run_stage<3>(p, stride, count, from, to);
    } else if (radix == 5) {
      run_stage<5>(p, stride, count, from, to);
    } else {
      run_stage<7>(p, stride, count, from, to);
    }
    __syncthreads();
    Complex* const result = to;
    to = from;
    from = result;
  }
  return from;
}

}  // namespace cuda
}  // namespace ortconv

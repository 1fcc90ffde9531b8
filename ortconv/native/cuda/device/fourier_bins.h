// Bins of transforms of real data.
#pragma once

#include "cuda/params/fourier.h"

namespace ortconv {
namespace cuda {

// Whether the spectrum of real data has no imaginary part there: sines of that frequency are 0.
__device__ inline bool is_real_bin(const FourierPass& p, long long bin) {
  return bin == 0 || 2 * bin == p.transform_size;
}

}  // namespace cuda
}  // namespace ortconv

// Adds up frames where they lie: each thread gathers what reaches its positions, in the order of the frames. ELEMENT
// and DOUBLE are as in reals.h; SCRATCH says whether the frames are the results of transforms, and not a tensor.

#include "cuda/device/reals.h"
#include "cuda/params/fourier.h"

namespace ortconv {
namespace cuda {

#if SCRATCH
typedef Real Sample;
__device__ inline Real real_of(Sample value) { return value; }
#else
typedef Element Sample;
__device__ inline Real real_of(Sample value) { return widen(value); }
#endif

__device__ inline Real sum_at(const OverlapAdd& p, long long image, long long position) {
  const Sample* const frames = static_cast<const Sample*>(p.src) + image * p.image;
  const Element* const window = static_cast<const Element*>(p.window);
  const long long first = position < p.taps ? 0 : (position - p.taps) / p.hop + 1;
  const long long reached = position / p.hop + 1, end = reached < p.frames ? reached : p.frames;
  Real sum = 0;
  for (long long t = first; t < end; ++t) {
    const long long tap = position - t * p.hop;
    const Real sample = real_of(frames[t * p.frame + tap * p.tap]);
    sum += window != nullptr ? sample * widen(window[tap]) : sample;
  }
  return sum;
}

}  // namespace cuda
}  // namespace ortconv

KERNEL(overlap_add, ortconv::cuda::OverlapAdd, 256, 4) {
  using namespace ortconv::cuda;
  const OverlapAdd& p = params;
  const long long count = p.batch * p.length, step = static_cast<long long>(gridDim.x) * blockDim.x;
  for (long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) {
    static_cast<Element*>(p.dst)[i] = narrow(sum_at(p, i / p.length, i % p.length + p.padding));
  }
}

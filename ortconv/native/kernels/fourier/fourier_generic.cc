#define ORTCONV_FOURIER_ISA generic
#define ORTCONV_FOURIER_VECTOR_BYTES 16
#include "kernels/fourier/fourier_loops.h"

namespace ortconv::kernels {

template <class T>
const FourierKernel<T>& fourier_generic() {
  return fourier::generic::kernel<T>("fourier_generic");
}

#define INSTANTIATE(T) template const FourierKernel<T>& fourier_generic();
ORTCONV_FLOAT_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace ortconv::kernels

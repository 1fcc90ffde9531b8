#define ORTCONV_FOURIER_ISA avx2
#define ORTCONV_FOURIER_VECTOR_BYTES 32
#include "kernels/fourier/fourier_loops.h"

namespace ortconv::kernels {

template <class T>
const FourierKernel<T>& fourier_avx2() {
  return fourier::avx2::kernel<T>("fourier_avx2");
}

#define INSTANTIATE(T) template const FourierKernel<T>& fourier_avx2();
ORTCONV_FLOAT_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace ortconv::kernels

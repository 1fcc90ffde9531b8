#define ORTCONV_FOURIER_ISA avx512
#define ORTCONV_FOURIER_VECTOR_BYTES 64
#include "kernels/fourier/fourier_loops.h"

namespace ortconv::kernels {

template <class T>
const FourierKernel<T>& fourier_avx512() {
  return fourier::avx512::kernel<T>("fourier_avx512");
}

#define INSTANTIATE(T) template const FourierKernel<T>& fourier_avx512();
ORTCONV_FLOAT_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace ortconv::kernels

#include "kernels/fourier/fourier.h"

namespace ortconv::kernels {

#define FOURIER_KERNEL(flag, isa) \
  template <class T>              \
  const FourierKernel<T>& fourier_##isa();
#include "kernels/fourier/kernels.inc"
#undef FOURIER_KERNEL

template <class T>
const FourierKernel<T>& get_fourier_kernel([[maybe_unused]] const ArchFlags& arch) {
#define FOURIER_KERNEL(flag, isa) \
  if (flag) return fourier_##isa<T>();
#include "kernels/fourier/kernels.inc"
#undef FOURIER_KERNEL
}

#define INSTANTIATE(T) template const FourierKernel<T>& get_fourier_kernel(const ArchFlags&);
ORTCONV_FLOAT_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace ortconv::kernels

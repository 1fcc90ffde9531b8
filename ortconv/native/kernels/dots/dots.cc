#include "kernels/dots/dots.h"

namespace ortconv::kernels {

#define DOTS_KERNEL(flag, name) \
  template <class T>            \
  void name(const DotsArgs<T>&);
#include "kernels/dots/kernels.inc"
#undef DOTS_KERNEL

const DotsKernel& get_dots_kernel([[maybe_unused]] const ArchFlags& arch) {
#define DOTS_KERNEL(flag, name)                                                \
  static constexpr DotsKernel k_##name = {#name, {name<float>, name<double>}}; \
  if (flag) return k_##name;
#include "kernels/dots/kernels.inc"
#undef DOTS_KERNEL
}

}  // namespace ortconv::kernels

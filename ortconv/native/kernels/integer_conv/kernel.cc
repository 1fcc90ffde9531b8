#include "kernels/integer_conv/kernel.h"

namespace ortconv::kernels {

#define INTEGER_CONV_KERNEL(flag, name) extern const IntegerConvKernel k_##name;
#include "kernels/integer_conv/kernels.inc"
#undef INTEGER_CONV_KERNEL

const IntegerConvKernel& get_integer_conv_kernel([[maybe_unused]] const ArchFlags& arch) {
#define INTEGER_CONV_KERNEL(flag, name) \
  if (flag) return k_##name;
#include "kernels/integer_conv/kernels.inc"
#undef INTEGER_CONV_KERNEL
}

}  // namespace ortconv::kernels

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

#if defined(ORTCONV_AVX2)
extern const IntegerConvKernel k_integer_conv_pairs_avx2;
#endif

const IntegerConvKernel* get_saturating_integer_conv_kernel([[maybe_unused]] const ArchFlags& arch) {
#if defined(ORTCONV_AVX2)
  if (arch.avx2_fma && !arch.avx512 && !arch.has_byte_dots()) return &k_integer_conv_pairs_avx2;
#endif
  return nullptr;
}

}  // namespace ortconv::kernels

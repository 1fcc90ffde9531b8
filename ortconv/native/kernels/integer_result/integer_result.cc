#include "kernels/integer_result/integer_result.h"

namespace ortconv::kernels {

#define INTEGER_RESULT_KERNEL(flag, name) extern const IntegerResultKernel k_##name;
#include "kernels/integer_result/kernels.inc"
#undef INTEGER_RESULT_KERNEL

const IntegerResultKernel& get_integer_result_kernel([[maybe_unused]] const ArchFlags& arch) {
#define INTEGER_RESULT_KERNEL(flag, name) \
  if (flag) return k_##name;
#include "kernels/integer_result/kernels.inc"
#undef INTEGER_RESULT_KERNEL
}

}  // namespace ortconv::kernels

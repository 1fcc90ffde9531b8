#include "kernels/to_float/to_float.h"

namespace ortconv::kernels {

#define TO_FLOAT_KERNEL(flag, name)           \
  void name(const Float16*, int64_t, float*); \
  void name(const Bfloat16*, int64_t, float*);
#include "kernels/to_float/kernels.inc"
#undef TO_FLOAT_KERNEL

const ToFloatKernel& get_to_float_kernel([[maybe_unused]] const ArchFlags& arch) {
#define TO_FLOAT_KERNEL(flag, name)                              \
  static constexpr ToFloatKernel k_##name = {#name, name, name}; \
  if (flag) return k_##name;
#include "kernels/to_float/kernels.inc"
#undef TO_FLOAT_KERNEL
}

}  // namespace ortconv::kernels

#include "kernels/transpose/transpose.h"

namespace ortconv::kernels {

#define TRANSPOSE_KERNEL(flag, name) \
  template <class T>                 \
  void name(const Sum<T>*, int64_t, int64_t, int64_t, const Sum<T>*, T*, int64_t);
#include "kernels/transpose/kernels.inc"
#undef TRANSPOSE_KERNEL

const TransposeKernel& get_transpose_kernel([[maybe_unused]] const ArchFlags& arch) {
#define TRANSPOSE_KERNEL(flag, name)                                                                               \
  static constexpr TransposeKernel k_##name = {#name, {name<float>, name<double>, name<Float16>, name<Bfloat16>}}; \
  if (flag) return k_##name;
#include "kernels/transpose/kernels.inc"
#undef TRANSPOSE_KERNEL
}

}  // namespace ortconv::kernels

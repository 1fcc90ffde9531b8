#include "kernels/transpose/transpose.h"

namespace ortconv::kernels {

#define TRANSPOSE_KERNEL(flag, suffix)                                                           \
  template <class T>                                                                             \
  void transpose_##suffix(const Sum<T>*, int64_t, int64_t, int64_t, const Sum<T>*, T*, int64_t); \
  template <class T>                                                                             \
  void transpose_from_##suffix(const T*, int64_t, int64_t, int64_t, Sum<T>*, int64_t);
#include "kernels/transpose/kernels.inc"
#undef TRANSPOSE_KERNEL

const TransposeKernel& get_transpose_kernel([[maybe_unused]] const ArchFlags& arch) {
#define TRANSPOSE_KERNEL(flag, suffix)                                                                    \
  static constexpr TransposeKernel k_##suffix = {                                                         \
      "transpose_" #suffix,                                                                               \
      {transpose_##suffix<float>, transpose_##suffix<double>, transpose_##suffix<Float16>,                \
       transpose_##suffix<Bfloat16>},                                                                     \
      {transpose_from_##suffix<float>, transpose_from_##suffix<double>, transpose_from_##suffix<Float16>, \
       transpose_from_##suffix<Bfloat16>}};                                                               \
  if (flag) return k_##suffix;
#include "kernels/transpose/kernels.inc"
#undef TRANSPOSE_KERNEL
}

}  // namespace ortconv::kernels

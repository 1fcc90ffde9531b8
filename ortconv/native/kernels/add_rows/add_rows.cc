#include "kernels/add_rows/add_rows.h"

namespace ortconv::kernels {

#define ADD_ROWS_KERNEL(flag, name) \
  template <class T>                \
  void name(const AddRowsArgs<T>&);
#include "kernels/add_rows/kernels.inc"
#undef ADD_ROWS_KERNEL

const AddRowsKernel& get_add_rows_kernel([[maybe_unused]] const ArchFlags& arch) {
#define ADD_ROWS_KERNEL(flag, name)                                               \
  static constexpr AddRowsKernel k_##name = {#name, {name<float>, name<double>}}; \
  if (flag) return k_##name;
#include "kernels/add_rows/kernels.inc"
#undef ADD_ROWS_KERNEL
}

}  // namespace ortconv::kernels

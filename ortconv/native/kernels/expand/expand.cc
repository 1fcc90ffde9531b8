#include "kernels/expand/expand.h"

namespace ortconv::kernels {

#define EXPAND_KERNEL(flag, name) \
  template <class T>              \
  void name(const ExpandArgs<T>&);
#include "kernels/expand/kernels.inc"
#undef EXPAND_KERNEL

const ExpandKernel& get_expand_kernel([[maybe_unused]] const ArchFlags& arch) {
#define EXPAND_KERNEL(flag, name)                                                                               \
  static constexpr ExpandKernel k_##name = {#name, {name<float>, name<double>, name<Float16>, name<Bfloat16>}}; \
  if (flag) return k_##name;
#include "kernels/expand/kernels.inc"
#undef EXPAND_KERNEL
}

}  // namespace ortconv::kernels

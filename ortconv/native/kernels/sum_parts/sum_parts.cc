#include "kernels/sum_parts/sum_parts.h"

namespace ortconv::kernels {

#define SUM_PARTS_KERNEL(flag, name) void name(const SumPartsArgs&);
#include "kernels/sum_parts/kernels.inc"
#undef SUM_PARTS_KERNEL

const SumPartsKernel& get_sum_parts_kernel([[maybe_unused]] const ArchFlags& arch) {
#define SUM_PARTS_KERNEL(flag, name)                     \
  static constexpr SumPartsKernel k_##name{#name, name}; \
  if (flag) return k_##name;
#include "kernels/sum_parts/kernels.inc"
#undef SUM_PARTS_KERNEL
}

}  // namespace ortconv::kernels

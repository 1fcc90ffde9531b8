#include "kernels/matmul_nbits/stages.h"

namespace ortconv::kernels {

#define MATMUL_NBITS_KERNEL(flag, name) extern const MatMulNbitsKernel k_##name;
#include "kernels/matmul_nbits/kernels.inc"
#undef MATMUL_NBITS_KERNEL

const MatMulNbitsKernel& get_matmul_nbits_kernel([[maybe_unused]] const ArchFlags& arch) {
  const MatMulNbitsKernel* best = nullptr;
#define MATMUL_NBITS_KERNEL(flag, name) \
  if (best == nullptr && (flag)) best = &k_##name;
#include "kernels/matmul_nbits/kernels.inc"
#undef MATMUL_NBITS_KERNEL
  return *best;  // at worst the portable kernel, which fits everything
}

}  // namespace ortconv::kernels

#include "kernels/matmul_nbits/stages.h"

namespace ortconv::kernels {

#define MATMUL_NBITS_KERNEL(flag, name) extern const MatMulNbitsKernel k_##name;
#include "kernels/matmul_nbits/kernels.inc"
#undef MATMUL_NBITS_KERNEL

const MatMulNbitsKernel& get_matmul_nbits_kernel([[maybe_unused]] const ArchFlags& arch) {
#define MATMUL_NBITS_KERNEL(flag, name) \
  if (flag) return k_##name;
#include "kernels/matmul_nbits/kernels.inc"
#undef MATMUL_NBITS_KERNEL
}

}  // namespace ortconv::kernels

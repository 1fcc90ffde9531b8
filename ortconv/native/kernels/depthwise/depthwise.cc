#include "kernels/depthwise/depthwise.h"

namespace ortconv::kernels {

#define DEPTHWISE_KERNEL(flag, suffix) extern const DepthwiseKernel kDepthwise_##suffix;
#include "kernels/depthwise/kernels.inc"
#undef DEPTHWISE_KERNEL

const DepthwiseKernel& get_depthwise_kernel([[maybe_unused]] const ArchFlags& arch) {
#define DEPTHWISE_KERNEL(flag, suffix) \
  if (flag) return kDepthwise_##suffix;
#include "kernels/depthwise/kernels.inc"
#undef DEPTHWISE_KERNEL
}

}  // namespace ortconv::kernels

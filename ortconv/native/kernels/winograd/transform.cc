#include "kernels/winograd/transform.h"

namespace ortconv::kernels::winograd {

#define TRANSFORM_KERNELS(flag, suffix) extern const TransformKernels kTransforms_##suffix;
#include "kernels/winograd/kernels.inc"
#undef TRANSFORM_KERNELS

const TransformKernels& get_transform_kernels([[maybe_unused]] const ArchFlags& arch) {
#define TRANSFORM_KERNELS(flag, suffix) \
  if (flag) return kTransforms_##suffix;
#include "kernels/winograd/kernels.inc"
#undef TRANSFORM_KERNELS
}

}  // namespace ortconv::kernels::winograd

#include "kernels/compressed/stages.h"

namespace ortconv::kernels {

#define COMPRESSED_KERNEL(flag, name) extern const CompressedKernel k_##name;
#include "kernels/compressed/kernels.inc"
#undef COMPRESSED_KERNEL

const CompressedKernel& get_compressed_kernel([[maybe_unused]] const ArchFlags& arch) {
  const CompressedKernel* best = nullptr;
#define COMPRESSED_KERNEL(flag, name) \
  if (best == nullptr && (flag)) best = &k_##name;
#include "kernels/compressed/kernels.inc"
#undef COMPRESSED_KERNEL
  return *best;  // at worst the portable kernel, which fits everything
}

}  // namespace ortconv::kernels

#include "kernels/winograd/transform.h"

namespace ortconv::kernels::winograd {

#define TRANSFORM_KERNELS(flag, suffix) extern const TransformKernels kTransforms_##suffix;
#include "kernels/winograd/kernels.inc"
#undef TRANSFORM_KERNELS

namespace {

struct Entry {
  bool (*fits)(const ArchFlags&);
  const TransformKernels* kernels;
};

#define TRANSFORM_KERNELS(flag, suffix) \
  {[]([[maybe_unused]] const ArchFlags& arch) -> bool { return flag; }, &kTransforms_##suffix},
const Entry kEntries[] = {
#include "kernels/winograd/kernels.inc"
};
#undef TRANSFORM_KERNELS

}  // namespace

const TransformKernels& get_transform_kernels(const ArchFlags& arch) {
  const Entry* entry = kEntries;
  while (!entry->fits(arch)) ++entry;  // ends at the portable kernels, which fit everything
  return *entry->kernels;
}

}  // namespace ortconv::kernels::winograd

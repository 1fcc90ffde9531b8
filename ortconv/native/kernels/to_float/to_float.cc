#include "kernels/to_float/to_float.h"

namespace ortconv::kernels {

#define TO_FLOAT_KERNEL(flag, name)           \
  void name(const Float16*, int64_t, float*); \
  void name(const Bfloat16*, int64_t, float*);
#include "kernels/to_float/kernels.inc"
#undef TO_FLOAT_KERNEL

namespace {

struct Entry {
  bool (*fits)(const ArchFlags&);
  ToFloatKernel kernel;
};

#define TO_FLOAT_KERNEL(flag, name) \
  {[]([[maybe_unused]] const ArchFlags& arch) -> bool { return flag; }, {#name, name, name}},
const Entry kEntries[] = {
#include "kernels/to_float/kernels.inc"
};
#undef TO_FLOAT_KERNEL

}  // namespace

const ToFloatKernel& get_to_float_kernel(const ArchFlags& arch) {
  const Entry* entry = kEntries;
  while (!entry->fits(arch)) ++entry;  // ends at the portable kernel, which fits everything
  return entry->kernel;
}

}  // namespace ortconv::kernels

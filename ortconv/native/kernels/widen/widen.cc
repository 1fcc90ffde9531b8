#include "kernels/widen/widen.h"

namespace ortconv::kernels {

#define WIDEN_KERNEL(flag, name)              \
  void name(const Float16*, int64_t, float*); \
  void name(const Bfloat16*, int64_t, float*);
#include "kernels/widen/kernels.inc"
#undef WIDEN_KERNEL

namespace {

struct Entry {
  bool (*fits)(const ArchFlags&);
  WidenKernel kernel;
};

#define WIDEN_KERNEL(flag, name) \
  {[]([[maybe_unused]] const ArchFlags& arch) -> bool { return flag; }, {#name, name, name}},
const Entry kEntries[] = {
#include "kernels/widen/kernels.inc"
};
#undef WIDEN_KERNEL

}  // namespace

const WidenKernel& get_widen_kernel(const ArchFlags& arch) {
  const Entry* entry = kEntries;
  while (!entry->fits(arch)) ++entry;  // ends at the portable kernel, which fits everything
  return entry->kernel;
}

}  // namespace ortconv::kernels

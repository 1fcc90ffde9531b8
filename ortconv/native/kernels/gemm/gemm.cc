#include "kernels/gemm/gemm.h"

namespace ortconv::kernels {

#define GEMM_KERNEL(flag, name, mr, nr) \
  void name(const GemmArgs&);           \
  static_assert(mr <= kMaxRows, "raise kMaxRows");
#include "kernels/gemm/kernels.inc"
#undef GEMM_KERNEL

namespace {

struct Entry {
  bool (*fits)(const ArchFlags&);
  GemmKernel kernel;
};

#define GEMM_KERNEL(flag, name, mr, nr) \
  {[]([[maybe_unused]] const ArchFlags& arch) -> bool { return flag; }, {#name, mr, nr, name}},
const Entry kEntries[] = {
#include "kernels/gemm/kernels.inc"
};
#undef GEMM_KERNEL

}  // namespace

const GemmKernel& get_gemm_kernel(const ArchFlags& arch) {
  const Entry* entry = kEntries;
  while (!entry->fits(arch)) ++entry;  // ends at the portable kernel, which fits everything
  return entry->kernel;
}

}  // namespace ortconv::kernels

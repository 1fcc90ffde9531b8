#include "kernels/interleave/interleave.h"

namespace ortconv::kernels {

#define INTERLEAVE_KERNEL(flag, name) void name(const float* const*, int64_t, int64_t, float, float*);
#include "kernels/interleave/kernels.inc"
#undef INTERLEAVE_KERNEL

namespace {

struct Entry {
  bool (*fits)(const ArchFlags&);
  InterleaveKernel kernel;
};

#define INTERLEAVE_KERNEL(flag, name) {[]([[maybe_unused]] const ArchFlags& arch) -> bool { return flag; }, {#name, name}},
const Entry kEntries[] = {
#include "kernels/interleave/kernels.inc"
};
#undef INTERLEAVE_KERNEL

}  // namespace

const InterleaveKernel& get_interleave_kernel(const ArchFlags& arch) {
  const Entry* entry = kEntries;
  while (!entry->fits(arch)) ++entry;  // ends at the portable kernel, which fits everything
  return entry->kernel;
}

}  // namespace ortconv::kernels

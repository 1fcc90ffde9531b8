#include "kernels/interleave/interleave.h"

#if defined(__x86_64__) || defined(_M_X64)
#include <xmmintrin.h>
#endif

namespace ortconv::kernels {

#define INTERLEAVE_KERNEL(flag, name, fence) \
  template <class T>                         \
  void name(const InterleaveArgs<T>&);
#include "kernels/interleave/kernels.inc"
#undef INTERLEAVE_KERNEL

namespace {

void no_fence() {}
#if defined(__x86_64__) || defined(_M_X64)
void stream_fence_x86() { _mm_sfence(); }
#endif

struct Entry {
  bool (*fits)(const ArchFlags&);
  InterleaveKernel kernel;
};

#define INTERLEAVE_KERNEL(flag, name, fence)                            \
  {[]([[maybe_unused]] const ArchFlags& arch) -> bool { return flag; }, \
   {#name, {name<float>, name<double>, name<Float16>, name<Bfloat16>}, fence}},
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

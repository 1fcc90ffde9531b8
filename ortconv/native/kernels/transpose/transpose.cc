#include "kernels/transpose/transpose.h"

namespace ortconv::kernels {

#define TRANSPOSE_KERNEL(flag, name) \
  template <class T>                 \
  void name(const Sum<T>*, int64_t, int64_t, int64_t, const Sum<T>*, T*, int64_t);
#include "kernels/transpose/kernels.inc"
#undef TRANSPOSE_KERNEL

namespace {

struct Entry {
  bool (*fits)(const ArchFlags&);
  TransposeKernel kernel;
};

#define TRANSPOSE_KERNEL(flag, name)                                    \
  {[]([[maybe_unused]] const ArchFlags& arch) -> bool { return flag; }, \
   {#name, {name<float>, name<double>, name<Float16>, name<Bfloat16>}}},
const Entry kEntries[] = {
#include "kernels/transpose/kernels.inc"
};
#undef TRANSPOSE_KERNEL

}  // namespace

const TransposeKernel& get_transpose_kernel(const ArchFlags& arch) {
  const Entry* entry = kEntries;
  while (!entry->fits(arch)) ++entry;  // ends at the portable kernel, which fits everything
  return entry->kernel;
}

}  // namespace ortconv::kernels

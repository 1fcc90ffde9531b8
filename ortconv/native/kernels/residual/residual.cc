#include "kernels/residual/residual.h"

namespace ortconv::kernels {

#define RESIDUAL_KERNEL(flag, name) \
  template <class T>                \
  void name(const Activation*, int64_t, const T*, T*);
#include "kernels/residual/kernels.inc"
#undef RESIDUAL_KERNEL

namespace {

struct Entry {
  bool (*fits)(const ArchFlags&);
  ResidualKernel kernel;
};

#define RESIDUAL_KERNEL(flag, name)                                     \
  {[]([[maybe_unused]] const ArchFlags& arch) -> bool { return flag; }, \
   {#name, {name<float>, name<double>, name<Float16>, name<Bfloat16>}}},
const Entry kEntries[] = {
#include "kernels/residual/kernels.inc"
};
#undef RESIDUAL_KERNEL

}  // namespace

const ResidualKernel& get_residual_kernel(const ArchFlags& arch) {
  const Entry* entry = kEntries;
  while (!entry->fits(arch)) ++entry;  // ends at the portable kernel, which fits everything
  return entry->kernel;
}

}  // namespace ortconv::kernels

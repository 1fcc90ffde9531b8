#include "kernels/activate/activate.h"

namespace ortconv::kernels {

#define ACTIVATE_KERNEL(flag, name) \
  template <class T>                \
  void name(const Activation&, float, int64_t, float*, T);
#include "kernels/activate/kernels.inc"
#undef ACTIVATE_KERNEL

namespace {

struct Entry {
  bool (*fits)(const ArchFlags&);
  ActivateKernel kernel;
};

#define ACTIVATE_KERNEL(flag, name)                                     \
  {[]([[maybe_unused]] const ArchFlags& arch) -> bool { return flag; }, \
   {#name, {name<float>, name<Float16>, name<Bfloat16>}}},
const Entry kEntries[] = {
#include "kernels/activate/kernels.inc"
};
#undef ACTIVATE_KERNEL

}  // namespace

const ActivateKernel& get_activate_kernel(const ArchFlags& arch) {
  const Entry* entry = kEntries;
  while (!entry->fits(arch)) ++entry;  // ends at the portable kernel, which fits everything
  return entry->kernel;
}

}  // namespace ortconv::kernels

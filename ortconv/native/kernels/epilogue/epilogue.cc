#include "kernels/epilogue/epilogue.h"

namespace ortconv::kernels {

#define EPILOGUE_KERNEL(flag, isa)                                   \
  template <class T>                                                 \
  void activate_##isa(const Activation&, float, int64_t, float*, T); \
  template <class T>                                                 \
  void residual_##isa(const Activation*, int64_t, const T*, T*);
#include "kernels/epilogue/kernels.inc"
#undef EPILOGUE_KERNEL

namespace {

struct Entry {
  bool (*fits)(const ArchFlags&);
  EpilogueKernel kernel;
};

#define EPILOGUE_KERNEL(flag, isa)                                              \
  {[]([[maybe_unused]] const ArchFlags& arch) -> bool { return flag; },         \
   {"epilogue_" #isa,                                                           \
    {activate_##isa<float>, activate_##isa<Float16>, activate_##isa<Bfloat16>}, \
    {residual_##isa<float>, residual_##isa<double>, residual_##isa<Float16>, residual_##isa<Bfloat16>}}},
const Entry kEntries[] = {
#include "kernels/epilogue/kernels.inc"
};
#undef EPILOGUE_KERNEL

}  // namespace

const EpilogueKernel& get_epilogue_kernel(const ArchFlags& arch) {
  const Entry* entry = kEntries;
  while (!entry->fits(arch)) ++entry;  // ends at the portable kernel, which fits everything
  return entry->kernel;
}

}  // namespace ortconv::kernels

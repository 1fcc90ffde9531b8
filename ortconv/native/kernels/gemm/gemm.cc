#include "kernels/gemm/gemm.h"

namespace ortconv::kernels {

#define GEMM_KERNEL(flag, name, mr, nr) \
  void name(const GemmArgs&);           \
  static_assert(mr <= kMaxRows, "raise kMaxRows");
#define GEMM_KERNEL_WIDENS(flag, name, mr, nr)     \
  GEMM_KERNEL(flag, name, mr, nr)                  \
  void name(const BasicGemmArgs<float, Float16>&); \
  void name(const BasicGemmArgs<float, Bfloat16>&);
#include "kernels/gemm/kernels.inc"
#undef GEMM_KERNEL
#undef GEMM_KERNEL_WIDENS
#define GEMM_KERNEL(flag, name, mr, nr)    \
  void name(const BasicGemmArgs<double>&); \
  static_assert(mr <= kMaxRows, "raise kMaxRows");
#include "kernels/gemm/kernels_f64.inc"
#undef GEMM_KERNEL
#define GEMM_KERNEL(flag, name, mr, nr)        \
  void name(const BasicGemmArgs<BfloatPair>&); \
  static_assert(mr <= kMaxRows, "raise kMaxRows");
#include "kernels/gemm/kernels_pairs.inc"
#undef GEMM_KERNEL

namespace {

template <class T>
struct Entry {
  bool (*fits)(const ArchFlags&);
  BasicGemmKernel<T> kernel;
};

#define GEMM_KERNEL(flag, name, mr, nr) \
  {[]([[maybe_unused]] const ArchFlags& arch) -> bool { return flag; }, {#name, mr, nr, name}},
#define GEMM_KERNEL_WIDENS(flag, name, mr, nr) \
  {[]([[maybe_unused]] const ArchFlags& arch) -> bool { return flag; }, {#name, mr, nr, name, name, name}},
const Entry<float> kEntries[] = {
#include "kernels/gemm/kernels.inc"
};
#undef GEMM_KERNEL_WIDENS
const Entry<double> kEntriesF64[] = {
#include "kernels/gemm/kernels_f64.inc"
};
#undef GEMM_KERNEL

template <class T>
const BasicGemmKernel<T>& best(const Entry<T>* entry, const ArchFlags& arch) {
  while (!entry->fits(arch)) ++entry;  // ends at the portable kernel, which fits everything
  return entry->kernel;
}

}  // namespace

const GemmKernel& get_gemm_kernel(const ArchFlags& arch) { return best(kEntries, arch); }
const BasicGemmKernel<double>& get_gemm_f64_kernel(const ArchFlags& arch) { return best(kEntriesF64, arch); }

const BasicGemmKernel<BfloatPair>* get_gemm_pairs_kernel([[maybe_unused]] const ArchFlags& arch) {
#define GEMM_KERNEL(flag, name, mr, nr)                                          \
  static constexpr BasicGemmKernel<BfloatPair> k_##name = {#name, mr, nr, name}; \
  if (flag) return &k_##name;
#include "kernels/gemm/kernels_pairs.inc"
#undef GEMM_KERNEL
  return nullptr;
}

}  // namespace ortconv::kernels

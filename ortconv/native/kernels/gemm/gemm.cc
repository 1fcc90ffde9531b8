#include "kernels/gemm/gemm.h"

namespace ortconv::kernels {

// Each list of kernels ends with the portable one, which fits everything, except the list for pairs.

#define GEMM_KERNEL(flag, name, mr) void name(const GemmArgs&);
#define GEMM_KERNEL_16(flag, name, mr)             \
  void name(const GemmArgs&);                      \
  void name(const BasicGemmArgs<float, Float16>&); \
  void name(const BasicGemmArgs<float, Bfloat16>&);
#define GEMM_KERNEL_16_STRIPS GEMM_KERNEL_16
#include "kernels/gemm/kernels.inc"
#undef GEMM_KERNEL
#undef GEMM_KERNEL_16
#undef GEMM_KERNEL_16_STRIPS
#define GEMM_KERNEL(flag, name, mr) void name(const BasicGemmArgs<double>&);
#define GEMM_KERNEL_STRIPS GEMM_KERNEL
#include "kernels/gemm/kernels_f64.inc"
#undef GEMM_KERNEL
#undef GEMM_KERNEL_STRIPS
#define GEMM_KERNEL(flag, name, mr) void name(const BasicGemmArgs<BfloatPair>&);
#include "kernels/gemm/kernels_pairs.inc"
#undef GEMM_KERNEL

#define DEFINE_KERNEL(T, name, mr, ...)                                    \
  static constexpr BasicGemmKernel<T> k_##name = {#name, mr, __VA_ARGS__}; \
  static_assert(mr <= kMaxRows, "raise kMaxRows");

const GemmKernel& get_gemm_kernel([[maybe_unused]] const ArchFlags& arch) {
#define GEMM_KERNEL(flag, name, mr)    \
  DEFINE_KERNEL(float, name, mr, name) \
  if (flag) return k_##name;
#define GEMM_KERNEL_16(flag, name, mr)             \
  DEFINE_KERNEL(float, name, mr, name, name, name) \
  if (flag) return k_##name;
#define GEMM_KERNEL_16_STRIPS(flag, name, mr)            \
  DEFINE_KERNEL(float, name, mr, name, name, name, true) \
  if (flag) return k_##name;
#include "kernels/gemm/kernels.inc"
#undef GEMM_KERNEL
#undef GEMM_KERNEL_16
#undef GEMM_KERNEL_16_STRIPS
}

const BasicGemmKernel<double>& get_gemm_f64_kernel([[maybe_unused]] const ArchFlags& arch) {
#define GEMM_KERNEL(flag, name, mr)     \
  DEFINE_KERNEL(double, name, mr, name) \
  if (flag) return k_##name;
#define GEMM_KERNEL_STRIPS(flag, name, mr)                      \
  DEFINE_KERNEL(double, name, mr, name, nullptr, nullptr, true) \
  if (flag) return k_##name;
#include "kernels/gemm/kernels_f64.inc"
#undef GEMM_KERNEL
#undef GEMM_KERNEL_STRIPS
}

const BasicGemmKernel<BfloatPair>* get_gemm_pairs_kernel([[maybe_unused]] const ArchFlags& arch) {
#define GEMM_KERNEL(flag, name, mr)         \
  DEFINE_KERNEL(BfloatPair, name, mr, name) \
  if (flag) return &k_##name;
#include "kernels/gemm/kernels_pairs.inc"
#undef GEMM_KERNEL
  return nullptr;
}

}  // namespace ortconv::kernels

#include "kernels/depth_to_space/kernel.h"

namespace ortconv::kernels::depth_to_space {

#define DEPTH_TO_SPACE_KERNEL(flag, name, bytes) \
  int64_t groups_##name(int64_t phases);         \
  void fence_##name();                           \
  template <class T>                             \
  void gemm_##name(const GemmArgs<T, Sum<T>>&);  \
  template <class T>                             \
  uint32_t pack_##name(const PackArgs<T, Sum<T>>&);
#include "kernels/depth_to_space/kernels.inc"
#undef DEPTH_TO_SPACE_KERNEL
#define DEPTH_TO_SPACE_KERNEL(flag, name)                  \
  void gemm_##name(const GemmArgs<Bfloat16, BfloatPair>&); \
  uint32_t pack_##name(const PackArgs<Bfloat16, BfloatPair>&);
#include "kernels/depth_to_space/kernels_pairs.inc"
#undef DEPTH_TO_SPACE_KERNEL

const Kernel* get_kernel([[maybe_unused]] const ArchFlags& arch) {
#define DEPTH_TO_SPACE_KERNEL(flag, name, bytes)                                    \
  static constexpr Kernel name = {#name,                                            \
                                  bytes,                                            \
                                  groups_##name,                                    \
                                  {{gemm_##name<float>, pack_##name<float>},        \
                                   {gemm_##name<double>, pack_##name<double>},      \
                                   {gemm_##name<Float16>, pack_##name<Float16>},    \
                                   {gemm_##name<Bfloat16>, pack_##name<Bfloat16>}}, \
                                  fence_##name};                                    \
  if (flag) return &name;
#include "kernels/depth_to_space/kernels.inc"
#undef DEPTH_TO_SPACE_KERNEL
  return nullptr;
}

const PairFunctions* get_pair_functions([[maybe_unused]] const ArchFlags& arch) {
#define DEPTH_TO_SPACE_KERNEL(flag, name)                           \
  static constexpr PairFunctions name = {gemm_##name, pack_##name}; \
  if (flag) return &name;
#include "kernels/depth_to_space/kernels_pairs.inc"
#undef DEPTH_TO_SPACE_KERNEL
  return nullptr;
}

}  // namespace ortconv::kernels::depth_to_space

#include "kernels/parts/parts.h"

namespace ortconv::kernels {

#define PARTS_KERNEL(flag, name, most_parts, product_cost, gemm, split) \
  void gemm(const PartsGemmArgs*, int64_t);                             \
  uint32_t split##_f32(const SplitArgs<float>&);                        \
  uint32_t split##_f16(const SplitArgs<Float16>&);                      \
  uint32_t split##_bf16(const SplitArgs<Bfloat16>&);
#include "kernels/parts/kernels.inc"
#undef PARTS_KERNEL

const PartsKernel* get_parts_kernel([[maybe_unused]] const ArchFlags& arch) {
#define PARTS_KERNEL(flag, name, most_parts, product_cost, gemm, split)                                                \
  static constexpr PartsKernel name = {#name, most_parts, product_cost, gemm, split##_f32, split##_f16, split##_bf16}; \
  if (flag) return &name;
#include "kernels/parts/kernels.inc"
#undef PARTS_KERNEL
  return nullptr;
}

void split_number(float value, int64_t count, uint16_t* parts) {
  for (int64_t i = 0; i < count; ++i) {
    parts[i] = static_cast<uint16_t>((bits_of(value) + 0x8000u) >> 16);  // to nearest, ties away from zero
    value -= float_of(static_cast<uint32_t>(parts[i]) << 16);
  }
}

}  // namespace ortconv::kernels

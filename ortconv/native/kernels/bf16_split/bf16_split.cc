#include "kernels/bf16_split/bf16_split.h"

#include <algorithm>
#include <cmath>

#include "kernels/element.h"

namespace ortconv::kernels {

#define BF16_SPLIT_KERNEL(flag, name, most_parts, product_cost, gemm, split) \
  void gemm(const SplitGemmArgs*, int64_t);                                  \
  uint32_t split##_f32(const SplitArgs<float>&);                             \
  uint32_t split##_f16(const SplitArgs<Float16>&);                           \
  uint32_t split##_bf16(const SplitArgs<Bfloat16>&);
#include "kernels/bf16_split/kernels.inc"
#undef BF16_SPLIT_KERNEL

const Bf16SplitKernel* get_bf16_split_kernel([[maybe_unused]] const ArchFlags& arch) {
#define BF16_SPLIT_KERNEL(flag, name, most_parts, product_cost, gemm, split)             \
  static constexpr Bf16SplitKernel name = {#name,       most_parts,  product_cost, gemm, \
                                           split##_f32, split##_f16, split##_bf16};      \
  if (flag) return &name;
#include "kernels/bf16_split/kernels.inc"
#undef BF16_SPLIT_KERNEL
  return nullptr;
}

bool parts_suit(DataType dtype, const void* numbers, int64_t count) {
  return with_float_type(dtype, [&](auto zero) {
    const auto* typed = static_cast<const decltype(zero)*>(numbers);
    double largest = 0;
    for (int64_t i = 0; i < count; ++i) largest = std::max(largest, std::fabs(static_cast<double>(widen(typed[i]))));
    return largest >= kSmallestLargest && largest <= kLargest;
  });
}

void split_number(float value, int64_t count, uint16_t* parts) {
  for (int64_t i = 0; i < count; ++i) {
    parts[i] = static_cast<uint16_t>((bits_of(value) + 0x8000u) >> 16);  // to nearest, ties away from zero
    value -= float_of(static_cast<uint32_t>(parts[i]) << 16);
  }
}

}  // namespace ortconv::kernels

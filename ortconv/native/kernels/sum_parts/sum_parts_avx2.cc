#include <immintrin.h>

#include <array>

#include "kernels/sum_parts/sum_parts.h"

namespace ortconv::kernels {
namespace {

struct alignas(32) Mask {
  int32_t lanes[kSumLanes];
};

// Of the lanes [begin, end), at begin * (kSumLanes + 1) + end.
constexpr auto all_masks() {
  std::array<Mask, kSumLanes*(kSumLanes + 1)> masks{};
  for (int begin = 0; begin < kSumLanes; ++begin) {
    for (int end = begin; end <= kSumLanes; ++end) {
      for (int lane = begin; lane < end; ++lane) {
        masks[static_cast<size_t>(begin * (kSumLanes + 1) + end)].lanes[lane] = -1;
      }
    }
  }
  return masks;
}
constexpr auto kMasks = all_masks();

}  // namespace

void sum_parts_avx2(const SumPartsArgs& args) {
  const float* src = args.src;
  float* dst = args.dst;
  for (int64_t i = 0; i < args.repeats; ++i, src += args.src_step, dst += args.dst_step) {
    const SumPart* part = args.parts;
    for (const SumVector* v = args.vectors; v != args.vectors + args.num_vectors; ++v) {
      __m256 sums = _mm256_setzero_ps();
      for (const SumPart* const end = part + v->parts; part != end; ++part) {
        const Mask& mask = kMasks[static_cast<size_t>(part->begin * (kSumLanes + 1) + part->end)];
        const __m256i lanes = _mm256_load_si256(reinterpret_cast<const __m256i*>(mask.lanes));
        sums = _mm256_add_ps(sums, _mm256_maskload_ps(src + part->offset, lanes));
      }
      _mm256_storeu_ps(dst + v->offset, sums);
    }
  }
}

}  // namespace ortconv::kernels

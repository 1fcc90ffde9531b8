#include "kernels/sum_parts/sum_parts.h"

namespace ortconv::kernels {

void sum_parts_generic(const SumPartsArgs& args) {
  for (int64_t i = 0; i < args.repeats; ++i) {
    const float* const src = args.src + i * args.src_step;
    float* const dst = args.dst + i * args.dst_step;
    const SumPart* part = args.parts;
    for (const SumVector* v = args.vectors; v != args.vectors + args.num_vectors; ++v) {
      float sums[kSumLanes] = {};
      for (const SumPart* const end = part + v->parts; part != end; ++part) {
        for (int lane = part->begin; lane < part->end; ++lane) sums[lane] += src[part->offset + lane];
      }
      for (int lane = 0; lane < kSumLanes; ++lane) dst[v->offset + lane] = sums[lane];
    }
  }
}

}  // namespace ortconv::kernels

#include "kernels/interleave/interleave.h"

namespace ortconv::kernels {

void interleave_f32_generic(const float* const* src, int64_t phases, int64_t n, float bias, float* dst, Store) {
  for (int64_t p = 0; p < phases; ++p) {
    const float* row = src[p];
    for (int64_t i = 0; i < n; ++i) dst[i * phases + p] = row[i] + bias;
  }
}

}  // namespace ortconv::kernels

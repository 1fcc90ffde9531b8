#include <algorithm>

#include "kernels/transpose/transpose.h"

namespace ortconv::kernels {

void transpose_f32_generic(const float* src, int64_t src_stride, int64_t rows, int64_t cols, const float* bias,
                           float* dst, int64_t dst_stride) {
  constexpr int64_t kTile = 16;  // a cache line by a cache line
  for (int64_t j0 = 0; j0 < cols; j0 += kTile) {
    const int64_t j1 = std::min(j0 + kTile, cols);
    for (int64_t i0 = 0; i0 < rows; i0 += kTile) {
      const int64_t i1 = std::min(i0 + kTile, rows);
      for (int64_t j = j0; j < j1; ++j) {
        float* out = dst + j * dst_stride;
        for (int64_t i = i0; i < i1; ++i) out[i] = src[i * src_stride + j] + (bias == nullptr ? 0.0f : bias[i]);
      }
    }
  }
}

}  // namespace ortconv::kernels

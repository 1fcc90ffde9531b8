#if defined(__AVX2__) && defined(__FMA__)

#include <immintrin.h>

#include "kernels/gemm/gemm.h"

namespace ortconv::kernels {
namespace {

// 12 accumulators, 2 vectors of B and 1 broadcast fill the 16 registers.
constexpr int64_t kTile = 16;

template <int R>
void tile(const GemmArgs& g, int64_t n0) {
  __m256 acc[R][2];
  float* c = g.c + n0;
  for (int r = 0; r < R; ++r) {
    for (int v = 0; v < 2; ++v) {
      acc[r][v] = g.accumulate ? _mm256_loadu_ps(c + r * g.ldc + 8 * v) : _mm256_setzero_ps();
    }
  }
  const float* a = g.a;
  for (int64_t tap = 0; tap < g.taps; ++tap) {
    const float* b = g.b + g.tap_offset[tap] + n0;
    for (int64_t k = 0; k < g.k; ++k, a += R, b += g.ldb) {
      const __m256 b0 = _mm256_loadu_ps(b);
      const __m256 b1 = _mm256_loadu_ps(b + 8);
      for (int r = 0; r < R; ++r) {
        const __m256 ar = _mm256_broadcast_ss(a + r);
        acc[r][0] = _mm256_fmadd_ps(ar, b0, acc[r][0]);
        acc[r][1] = _mm256_fmadd_ps(ar, b1, acc[r][1]);
      }
    }
  }
  for (int r = 0; r < R; ++r) {
    for (int v = 0; v < 2; ++v) _mm256_storeu_ps(c + r * g.ldc + 8 * v, acc[r][v]);
  }
}

}  // namespace

void gemm_f32_6x16_avx2(const GemmArgs& g) {
  constexpr void (*kTiles[])(const GemmArgs&, int64_t) = {tile<1>, tile<2>, tile<3>, tile<4>, tile<5>, tile<6>};
  for (int64_t n = 0; n < g.cols; n += kTile) kTiles[g.rows - 1](g, n);
}

}  // namespace ortconv::kernels

#endif

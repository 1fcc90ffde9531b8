#if defined(__AVX2__) && defined(__FMA__)

#include <immintrin.h>

#include "kernels/gemm/gemm.h"
#include "kernels/unroll.h"

namespace ortconv::kernels {
namespace {

// 12 accumulators, 2 vectors of B and 1 broadcast fill the 16 registers.
constexpr int64_t kTile = 16;

template <int R>
void tile(const GemmArgs& g, int64_t n0) {
  __m256 acc[R][2];
  ORTCONV_UNROLL
  for (int r = 0; r < R; ++r) {
    acc[r][0] = g.accumulate ? _mm256_loadu_ps(g.c[r] + n0) : _mm256_setzero_ps();
    acc[r][1] = g.accumulate ? _mm256_loadu_ps(g.c[r] + n0 + 8) : _mm256_setzero_ps();
  }
  const float* a = g.a;
  const int64_t* tap = g.tap_offset;
  const float* b = g.b + *tap + n0;
  const int64_t ldb = g.ldb;
  // One loop over taps and k: a nest would move the sums between registers at every tap.
  for (int64_t left = g.taps * g.k, tap_left = g.k; left > 0; --left, a += R) {
    const __m256 b0 = _mm256_loadu_ps(b);
    const __m256 b1 = _mm256_loadu_ps(b + 8);
    b += ldb;
    ORTCONV_UNROLL
    for (int r = 0; r < R; ++r) {
      const __m256 ar = _mm256_broadcast_ss(a + r);
      acc[r][0] = _mm256_fmadd_ps(ar, b0, acc[r][0]);
      acc[r][1] = _mm256_fmadd_ps(ar, b1, acc[r][1]);
    }
    if (--tap_left == 0 && left > 1) {
      b = g.b + *++tap + n0;
      tap_left = g.k;
    }
  }
  ORTCONV_UNROLL
  for (int r = 0; r < R; ++r) {
    _mm256_storeu_ps(g.c[r] + n0, acc[r][0]);
    _mm256_storeu_ps(g.c[r] + n0 + 8, acc[r][1]);
  }
}

}  // namespace

void gemm_f32_6x16_avx2(const GemmArgs& g) {
  constexpr void (*kTiles[])(const GemmArgs&, int64_t) = {tile<1>, tile<2>, tile<3>, tile<4>, tile<5>, tile<6>};
  for (int64_t n = 0; n < g.cols; n += kTile) kTiles[g.rows - 1](g, n);
}

}  // namespace ortconv::kernels

#endif

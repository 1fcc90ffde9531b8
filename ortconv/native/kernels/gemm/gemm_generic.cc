#include "kernels/gemm/gemm.h"

namespace ortconv::kernels {
namespace {

constexpr int64_t kTile = 8;

template <int R, class T>
void tile(const BasicGemmArgs<T>& g, int64_t n0) {
  T acc[R][kTile];
  for (int r = 0; r < R; ++r) {
    for (int64_t n = 0; n < kTile; ++n) acc[r][n] = T();
  }
  const T* a = g.a;
  for (int64_t tap = 0; tap < g.taps; ++tap) {
    const T* b = g.b + g.tap_offset[tap] + n0;
    for (int64_t k = 0; k < g.k; ++k, a += R, b += g.ldb) {
      for (int r = 0; r < R; ++r) {
        for (int64_t n = 0; n < kTile; ++n) acc[r][n] += a[r] * b[n];
      }
    }
  }
  for (int r = 0; r < R; ++r) {
    for (int64_t n = 0; n < kTile; ++n) g.c[r][n0 + n] = g.accumulate ? g.c[r][n0 + n] + acc[r][n] : acc[r][n];
  }
}

template <class T>
void gemm(const BasicGemmArgs<T>& g) {
  constexpr void (*kTiles[])(const BasicGemmArgs<T>&, int64_t) = {tile<1>, tile<2>, tile<3>, tile<4>};
  for (int64_t n = 0; n < g.cols; n += kTile) kTiles[g.rows - 1](g, n);
}

}  // namespace

void gemm_f32_4x8_generic(const GemmArgs& g) { gemm(g); }
void gemm_f64_4x8_generic(const BasicGemmArgs<double>& g) { gemm(g); }

}  // namespace ortconv::kernels

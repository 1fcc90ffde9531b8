#if defined(__AVX512F__)

#include <immintrin.h>

#include <algorithm>

#include "kernels/gemm/gemm.h"
#include "kernels/unroll.h"

namespace ortconv::kernels {
namespace {

constexpr int64_t kLanes = 16;

// R rows by V vectors: R * V accumulators, V vectors of B and a broadcast in 32 registers.
template <int R, int V>
void tile(const GemmArgs& g, int64_t n0) {
  __m512 acc[R][V];
  ORTCONV_UNROLL
  for (int r = 0; r < R; ++r) {
    ORTCONV_UNROLL
    for (int v = 0; v < V; ++v) {
      acc[r][v] = g.accumulate ? _mm512_loadu_ps(g.c[r] + n0 + kLanes * v) : _mm512_setzero_ps();
    }
  }
  const float* a = g.a;
  const int64_t* tap = g.tap_offset;
  const float* b = g.b + *tap + n0;
  const int64_t ldb = g.ldb;
  // One loop over taps and k: a nest would move the sums between registers at every tap.
  for (int64_t left = g.taps * g.k, tap_left = g.k; left > 0; --left, a += R) {
    __m512 bv[V];
    ORTCONV_UNROLL
    for (int v = 0; v < V; ++v) bv[v] = _mm512_loadu_ps(b + kLanes * v);
    b += ldb;
    ORTCONV_UNROLL
    for (int r = 0; r < R; ++r) {
      const __m512 ar = _mm512_set1_ps(a[r]);
      ORTCONV_UNROLL
      for (int v = 0; v < V; ++v) acc[r][v] = _mm512_fmadd_ps(ar, bv[v], acc[r][v]);
    }
    if (--tap_left == 0 && left > 1) {
      b = g.b + *++tap + n0;
      tap_left = g.k;
    }
  }
  ORTCONV_UNROLL
  for (int r = 0; r < R; ++r) {
    ORTCONV_UNROLL
    for (int v = 0; v < V; ++v) _mm512_storeu_ps(g.c[r] + n0 + kLanes * v, acc[r][v]);
  }
}

using TileFn = void (*)(const GemmArgs&, int64_t);

// Fewer rows leave registers for more columns: at least 8 independent sums hide the latency of an FMA.
template <int R>
void rows(const GemmArgs& g) {
  constexpr int kVectors = R <= 6 ? 4 : R <= 9 ? 3 : 2;
  constexpr TileFn kTail[] = {tile<R, 1>, tile<R, 2>, tile<R, std::min(3, kVectors)>, tile<R, kVectors>};
  int64_t n = 0;
  for (; n + kVectors * kLanes <= g.cols; n += kVectors * kLanes) tile<R, kVectors>(g, n);
  if (n < g.cols) kTail[(g.cols - n) / kLanes - 1](g, n);
}

}  // namespace

void gemm_f32_14x32_avx512(const GemmArgs& g) {
  constexpr GemmFn kRows[] = {rows<1>, rows<2>, rows<3>,  rows<4>,  rows<5>,  rows<6>,  rows<7>,
                              rows<8>, rows<9>, rows<10>, rows<11>, rows<12>, rows<13>, rows<14>};
  kRows[g.rows - 1](g);
}

}  // namespace ortconv::kernels

#endif

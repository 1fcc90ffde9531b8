#if defined(__AVX512F__)

#include <immintrin.h>

#include <algorithm>

#include "kernels/gemm/gemm.h"
#include "kernels/unroll.h"

namespace ortconv::kernels {
namespace {

constexpr int64_t kLanes = 16;
// How far ahead of its use an A that no cache holds is asked for, in floats.
constexpr int64_t kAhead = 512;

// R rows by V vectors: R * V accumulators, V vectors of B and a broadcast in 32 registers.
template <int R, int V, bool kFarA>
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
    if (kFarA) _mm_prefetch(reinterpret_cast<const char*>(a + kAhead), _MM_HINT_T0);
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
template <int R, bool kFarA>
void rows(const GemmArgs& g) {
  constexpr int kVectors = R <= 6 ? 4 : R <= 9 ? 3 : 2;
  constexpr TileFn kTail[] = {tile<R, 1, kFarA>, tile<R, 2, kFarA>, tile<R, std::min(3, kVectors), kFarA>,
                              tile<R, kVectors, kFarA>};
  int64_t n = 0;
  for (; n + kVectors * kLanes <= g.cols; n += kVectors * kLanes) tile<R, kVectors, kFarA>(g, n);
  if (n < g.cols) kTail[(g.cols - n) / kLanes - 1](g, n);
}

template <bool kFarA>
void any_rows(const GemmArgs& g) {
  constexpr GemmFn kRows[] = {rows<1, kFarA>,  rows<2, kFarA>,  rows<3, kFarA>,  rows<4, kFarA>, rows<5, kFarA>,
                              rows<6, kFarA>,  rows<7, kFarA>,  rows<8, kFarA>,  rows<9, kFarA>, rows<10, kFarA>,
                              rows<11, kFarA>, rows<12, kFarA>, rows<13, kFarA>, rows<14, kFarA>};
  kRows[g.rows - 1](g);
}

}  // namespace

void gemm_f32_14x32_avx512(const GemmArgs& g) { g.far_a ? any_rows<true>(g) : any_rows<false>(g); }

}  // namespace ortconv::kernels

#endif

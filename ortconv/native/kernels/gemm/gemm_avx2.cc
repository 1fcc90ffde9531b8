#include <immintrin.h>

#include <algorithm>

#include "kernels/gemm/gemm.h"
#include "kernels/unroll.h"
#include "kernels/vector_avx2.h"

namespace ortconv::kernels {
namespace {

template <class T>
constexpr int64_t kLanes = 32 / sizeof(T);

// R rows by V vectors: at most 12 accumulators, with vectors of B and a broadcast in 16 registers.
template <int R, int V, class T>
void tile(const BasicGemmArgs<T>& g, int64_t n0) {
  static_assert(R * V <= 12);
  using Vector = decltype(avx2::broadcast(T()));
  const Vector zero = avx2::broadcast(T());
  const T* a = g.a;
  const int64_t* tap = g.tap_offset;
  const T* b = g.b + *tap + n0;
  const int64_t lda = g.lda, ldb = g.ldb;
  alignas(32) Sum<T> sums[R][V * kLanes<T>];  // of the pieces before the present one
  Vector acc[R][V];
  int64_t tap_left = g.k;
  bool first = true;
  for (int64_t left = g.taps * g.k;; first = false) {
    ORTCONV_UNROLL
    for (int r = 0; r < R; ++r) {
      ORTCONV_UNROLL
      for (int v = 0; v < V; ++v) acc[r][v] = zero;
    }
    // One loop over taps and k: a nest would move the sums between registers at every tap.
    for (const int64_t stop = std::max<int64_t>(left - g.piece, 0); left > stop; --left, a += lda) {
      // Where 16 registers cannot hold the sums, all vectors of B and a number of A, each vector is loaded when it is
      // due.
      if constexpr (R * V + V + 1 > 16) {
        Vector ar[R];
        ORTCONV_UNROLL
        for (int r = 0; r < R; ++r) ar[r] = avx2::broadcast(a[r]);
        ORTCONV_UNROLL
        for (int v = 0; v < V; ++v) {
          const Vector bv = avx2::load(b + kLanes<T> * v);
          ORTCONV_UNROLL
          for (int r = 0; r < R; ++r) acc[r][v] = avx2::multiply_add(ar[r], bv, acc[r][v]);
        }
      } else {
        Vector bv[V];
        ORTCONV_UNROLL
        for (int v = 0; v < V; ++v) bv[v] = avx2::load(b + kLanes<T> * v);
        ORTCONV_UNROLL
        for (int r = 0; r < R; ++r) {
          const Vector ar = avx2::broadcast(a[r]);
          ORTCONV_UNROLL
          for (int v = 0; v < V; ++v) acc[r][v] = avx2::multiply_add(ar, bv[v], acc[r][v]);
        }
      }
      b += ldb;
      if (--tap_left == 0 && left > 1) {
        b = g.b + *++tap + n0;
        tap_left = g.k;
      }
    }
    if (!first) {
      ORTCONV_UNROLL
      for (int r = 0; r < R; ++r) {
        ORTCONV_UNROLL
        for (int v = 0; v < V; ++v) acc[r][v] = avx2::add(acc[r][v], avx2::load(sums[r] + kLanes<T> * v));
      }
    }
    if (left == 0) break;
    ORTCONV_UNROLL
    for (int r = 0; r < R; ++r) {
      ORTCONV_UNROLL
      for (int v = 0; v < V; ++v) avx2::store(sums[r] + kLanes<T> * v, acc[r][v]);
    }
  }
  ORTCONV_UNROLL
  for (int r = 0; r < R; ++r) {
    Sum<T>* c = g.c[r] + n0;
    ORTCONV_UNROLL
    for (int v = 0; v < V; ++v, c += kLanes<T>) {
      avx2::store(c, g.accumulate ? avx2::add(acc[r][v], avx2::load(c)) : acc[r][v]);
    }
  }
}

// Fewer rows leave registers for more columns: at least 8 independent sums hide the latency of an FMA.
template <int R, class T>
void rows(const BasicGemmArgs<T>& g) {
  constexpr int kMost = R <= 1 ? 8 : R <= 3 ? 4 : 2;
  constexpr int64_t kStep = 2 * kLanes<T>;
  int64_t n = 0;
  for (; n + kMost * kLanes<T> <= g.cols; n += kMost * kLanes<T>) tile<R, kMost>(g, n);
  for (; n < g.cols; n += kStep) tile<R, 2>(g, n);
}

template <class T>
void gemm(const BasicGemmArgs<T>& g) {
  constexpr void (*kRows[])(const BasicGemmArgs<T>&) = {rows<1>, rows<2>, rows<3>, rows<4>, rows<5>, rows<6>};
  kRows[g.rows - 1](g);
}

}  // namespace

void gemm_f32_6x16_avx2(const GemmArgs& g) { gemm(g); }
void gemm_f64_6x8_avx2(const BasicGemmArgs<double>& g) { gemm(g); }

}  // namespace ortconv::kernels

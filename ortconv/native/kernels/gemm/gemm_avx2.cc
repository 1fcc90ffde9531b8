#include <immintrin.h>

#include <algorithm>

#include "kernels/gemm/gemm.h"
#include "kernels/unroll.h"
#include "kernels/vector_avx2.h"

namespace ortconv::kernels {
namespace {

// 12 accumulators, 2 vectors of B and 1 broadcast fill the 16 registers.
template <class T>
constexpr int64_t kLanes = 32 / sizeof(T);

template <int R, class T>
void tile(const BasicGemmArgs<T>& g, int64_t n0) {
  using Vector = decltype(avx2::broadcast(T()));
  const Vector zero = avx2::broadcast(T());
  const T* a = g.a;
  const int64_t* tap = g.tap_offset;
  const T* b = g.b + *tap + n0;
  const int64_t lda = g.lda, ldb = g.ldb;
  alignas(32) Sum<T> sums[R][2 * kLanes<T>];  // of the pieces before the present one
  Vector acc[R][2];
  int64_t tap_left = g.k;
  bool first = true;
  for (int64_t left = g.taps * g.k;; first = false) {
    ORTCONV_UNROLL
    for (int r = 0; r < R; ++r) acc[r][0] = acc[r][1] = zero;
    // One loop over taps and k: a nest would move the sums between registers at every tap.
    for (const int64_t stop = std::max<int64_t>(left - g.piece, 0); left > stop; --left, a += lda) {
      const Vector b0 = avx2::load(b);
      const Vector b1 = avx2::load(b + kLanes<T>);
      b += ldb;
      ORTCONV_UNROLL
      for (int r = 0; r < R; ++r) {
        const Vector ar = avx2::broadcast(a[r]);
        acc[r][0] = avx2::multiply_add(ar, b0, acc[r][0]);
        acc[r][1] = avx2::multiply_add(ar, b1, acc[r][1]);
      }
      if (--tap_left == 0 && left > 1) {
        b = g.b + *++tap + n0;
        tap_left = g.k;
      }
    }
    if (!first) {
      ORTCONV_UNROLL
      for (int r = 0; r < R; ++r) {
        acc[r][0] = avx2::add(acc[r][0], avx2::load(sums[r]));
        acc[r][1] = avx2::add(acc[r][1], avx2::load(sums[r] + kLanes<T>));
      }
    }
    if (left == 0) break;
    ORTCONV_UNROLL
    for (int r = 0; r < R; ++r) {
      avx2::store(sums[r], acc[r][0]);
      avx2::store(sums[r] + kLanes<T>, acc[r][1]);
    }
  }
  ORTCONV_UNROLL
  for (int r = 0; r < R; ++r) {
    Sum<T>* c = g.c[r] + n0;
    avx2::store(c, g.accumulate ? avx2::add(acc[r][0], avx2::load(c)) : acc[r][0]);
    avx2::store(c + kLanes<T>, g.accumulate ? avx2::add(acc[r][1], avx2::load(c + kLanes<T>)) : acc[r][1]);
  }
}

template <class T>
void gemm(const BasicGemmArgs<T>& g) {
  constexpr void (*kTiles[])(const BasicGemmArgs<T>&, int64_t) = {tile<1>, tile<2>, tile<3>, tile<4>, tile<5>, tile<6>};
  for (int64_t n = 0; n < g.cols; n += 2 * kLanes<T>) kTiles[g.rows - 1](g, n);
}

}  // namespace

void gemm_f32_6x16_avx2(const GemmArgs& g) { gemm(g); }
void gemm_f64_6x8_avx2(const BasicGemmArgs<double>& g) { gemm(g); }

}  // namespace ortconv::kernels

#include <algorithm>

#include "kernels/gemm/gemm.h"

namespace ortconv::kernels {
namespace {

constexpr int64_t kTile = 8;

// The last tile of a row may have fewer columns.
template <int R, bool kLast, class T>
void tile(const BasicGemmArgs<T>& g, int64_t n0) {
  const T* a = g.a;
  const int64_t* tap = g.tap_offset;
  const T* b = g.b + *tap + n0;
  T sums[R][kTile] = {};  // of the pieces so far
  int64_t tap_left = g.k;
  for (int64_t left = g.taps * g.k; left > 0;) {
    T acc[R][kTile];
    for (int r = 0; r < R; ++r) {
      for (int64_t n = 0; n < kTile; ++n) acc[r][n] = T();
    }
    for (const int64_t stop = std::max<int64_t>(left - g.piece, 0); left > stop; --left, a += g.lda) {
      T last[kTile] = {};
      if (kLast) std::copy_n(b, g.cols - n0, last);
      const T* row = kLast ? last : b;
      for (int r = 0; r < R; ++r) {
        for (int64_t n = 0; n < kTile; ++n) acc[r][n] += a[r] * row[n];
      }
      b += g.ldb;
      if (--tap_left == 0 && left > 1) {
        b = g.b + *++tap + n0;
        tap_left = g.k;
      }
    }
    for (int r = 0; r < R; ++r) {
      for (int64_t n = 0; n < kTile; ++n) sums[r][n] += acc[r][n];
    }
  }
  for (int r = 0; r < R; ++r) {
    for (int64_t n = 0; n < kTile; ++n) g.c[r][n0 + n] = g.accumulate ? g.c[r][n0 + n] + sums[r][n] : sums[r][n];
  }
}

template <int R, class T>
void columns(const BasicGemmArgs<T>& g) {
  int64_t n = 0;
  for (; n + kTile <= g.cols; n += kTile) tile<R, false>(g, n);
  if (n < g.cols) tile<R, true>(g, n);
}

template <class T>
void gemm(const BasicGemmArgs<T>& g) {
  static constexpr void (*kColumns[])(const BasicGemmArgs<T>&) = {columns<1>, columns<2>, columns<3>, columns<4>};
  kColumns[g.rows - 1](g);
}

}  // namespace

void gemm_f32_4x8_generic(const GemmArgs& g) { gemm(g); }
void gemm_f64_4x8_generic(const BasicGemmArgs<double>& g) { gemm(g); }

}  // namespace ortconv::kernels

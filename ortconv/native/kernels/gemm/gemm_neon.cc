#if defined(__aarch64__)

#include <arm_neon.h>

#include <algorithm>

#include "kernels/gemm/gemm.h"
#include "kernels/unroll.h"

namespace ortconv::kernels {
namespace {

// 24 accumulators, 2 vectors of B and 3 of A in 32 registers.
constexpr int64_t kTile = 8;

// The last tile of a row may have fewer columns.
template <int R, bool kLast>
void tile(const GemmArgs& g, int64_t n0) {
  const float* a = g.a;
  const int64_t* tap = g.tap_offset;
  const float* b = g.b + *tap + n0;
  const int64_t lda = g.lda, ldb = g.ldb;
  float sums[R][kTile];  // of the pieces before the present one
  float32x4_t acc[R][2];
  int64_t tap_left = g.k;
  for (int64_t left = g.taps * g.k; left > 0;) {
    const bool first = left == g.taps * g.k;
    ORTCONV_UNROLL
    for (int r = 0; r < R; ++r) {
      acc[r][0] = acc[r][1] = vdupq_n_f32(0);
    }
    // One loop over taps and k: a nest would move the sums between registers at every tap.
    for (const int64_t stop = std::max<int64_t>(left - g.piece, 0); left > stop; --left, a += lda) {
      float last[kTile] = {};
      if (kLast) std::copy_n(b, g.cols - n0, last);
      const float* row = kLast ? last : b;
      const float32x4_t b0 = vld1q_f32(row), b1 = vld1q_f32(row + 4);
      b += ldb;
      ORTCONV_UNROLL
      for (int r = 0; r + 4 <= R; r += 4) {
        const float32x4_t ar = vld1q_f32(a + r);
        acc[r][0] = vfmaq_laneq_f32(acc[r][0], b0, ar, 0);
        acc[r][1] = vfmaq_laneq_f32(acc[r][1], b1, ar, 0);
        acc[r + 1][0] = vfmaq_laneq_f32(acc[r + 1][0], b0, ar, 1);
        acc[r + 1][1] = vfmaq_laneq_f32(acc[r + 1][1], b1, ar, 1);
        acc[r + 2][0] = vfmaq_laneq_f32(acc[r + 2][0], b0, ar, 2);
        acc[r + 2][1] = vfmaq_laneq_f32(acc[r + 2][1], b1, ar, 2);
        acc[r + 3][0] = vfmaq_laneq_f32(acc[r + 3][0], b0, ar, 3);
        acc[r + 3][1] = vfmaq_laneq_f32(acc[r + 3][1], b1, ar, 3);
      }
      ORTCONV_UNROLL
      for (int r = R / 4 * 4; r < R; ++r) {
        acc[r][0] = vfmaq_n_f32(acc[r][0], b0, a[r]);
        acc[r][1] = vfmaq_n_f32(acc[r][1], b1, a[r]);
      }
      if (--tap_left == 0 && left > 1) {
        b = g.b + *++tap + n0;
        tap_left = g.k;
      }
    }
    if (!first) {
      ORTCONV_UNROLL
      for (int r = 0; r < R; ++r) {
        acc[r][0] = vaddq_f32(acc[r][0], vld1q_f32(sums[r]));
        acc[r][1] = vaddq_f32(acc[r][1], vld1q_f32(sums[r] + 4));
      }
    }
    if (left == 0) break;
    ORTCONV_UNROLL
    for (int r = 0; r < R; ++r) {
      vst1q_f32(sums[r], acc[r][0]);
      vst1q_f32(sums[r] + 4, acc[r][1]);
    }
  }
  ORTCONV_UNROLL
  for (int r = 0; r < R; ++r) {
    float* c = g.c[r] + n0;
    vst1q_f32(c, g.accumulate ? vaddq_f32(acc[r][0], vld1q_f32(c)) : acc[r][0]);
    vst1q_f32(c + 4, g.accumulate ? vaddq_f32(acc[r][1], vld1q_f32(c + 4)) : acc[r][1]);
  }
}

template <int R>
void columns(const GemmArgs& g) {
  int64_t n = 0;
  for (; n + kTile <= g.cols; n += kTile) tile<R, false>(g, n);
  if (n < g.cols) tile<R, true>(g, n);
}

}  // namespace

void gemm_f32_12x8_neon(const GemmArgs& g) {
  static constexpr void (*kColumns[])(const GemmArgs&) = {columns<1>, columns<2>,  columns<3>,  columns<4>,
                                                          columns<5>, columns<6>,  columns<7>,  columns<8>,
                                                          columns<9>, columns<10>, columns<11>, columns<12>};
  kColumns[g.rows - 1](g);
}

}  // namespace ortconv::kernels

#endif

#include <immintrin.h>

#include <algorithm>
#include <cstring>

#include "kernels/bf16_split/bf16_split.h"
#include "kernels/transpose16_avx512.h"
#include "kernels/unroll.h"

namespace ortconv::kernels {
namespace {

constexpr int64_t kTile = kPartRows * kPartChannels;  // numbers of one tile of weights
constexpr int64_t kPair = 2 * kPartRows;              // numbers of one pair of its channels

__m512bh load_pairs(const uint16_t* in) { return reinterpret_cast<__m512bh>(_mm512_load_si512(in)); }

// One pair of channels of one cell, in all lanes.
__m512bh broadcast_pair(const uint16_t* in) {
  int32_t pair;
  std::memcpy(&pair, in, sizeof pair);
  return reinterpret_cast<__m512bh>(_mm512_set1_epi32(pair));
}

// Sums of R tiles of rows at 16 / R columns: the lanes of an accumulator are the rows of a tile.
template <int R>
void multiply(const SplitGemmArgs& g, int64_t column, float (*sums)[kPartColumns][kPartRows], int64_t first) {
  constexpr int kColumns = 16 / R;
  __m512 acc[R][kColumns];
  ORTCONV_UNROLL
  for (int r = 0; r < R; ++r) {
    ORTCONV_UNROLL
    for (int n = 0; n < kColumns; ++n) acc[r][n] = _mm512_setzero_ps();
  }
  const uint16_t* weights = g.a;
  const uint16_t* block = g.b + (column + first) * kPartChannels;
  for (int64_t k = 0; k < g.k; ++k, block += g.part_stride) {
    for (int64_t tap = 0; tap < g.taps; ++tap, weights += R * kTile) {
      const uint16_t* cells = block + g.tap_offset[tap] * kPartChannels;
      for (int64_t pair = 0; pair < kPartChannels / 2; ++pair) {
        __m512bh w[R];
        ORTCONV_UNROLL
        for (int r = 0; r < R; ++r) w[r] = load_pairs(weights + r * kTile + pair * kPair);
        ORTCONV_UNROLL
        for (int n = 0; n < kColumns; ++n) {
          const __m512bh cell = broadcast_pair(cells + n * kPartChannels + 2 * pair);
          ORTCONV_UNROLL
          for (int r = 0; r < R; ++r) acc[r][n] = _mm512_dpbf16_ps(acc[r][n], w[r], cell);
        }
      }
    }
  }
  ORTCONV_UNROLL
  for (int r = 0; r < R; ++r) {
    ORTCONV_UNROLL
    for (int n = 0; n < kColumns; ++n) _mm512_store_ps(sums[r][first + n], acc[r][n]);
  }
}

void write_sums(const float (&sums)[kPartColumns][kPartRows], int64_t rows, float* const* c, int64_t column,
                bool accumulate) {
  __m512 v[16];
  ORTCONV_UNROLL
  for (int i = 0; i < 16; ++i) v[i] = _mm512_load_ps(sums[i]);
  avx512::transpose16(v);
  ORTCONV_UNROLL
  for (int i = 0; i < 16; ++i) {
    if (i >= rows) continue;
    float* out = c[i] + column;
    _mm512_storeu_ps(out, accumulate ? _mm512_add_ps(v[i], _mm512_loadu_ps(out)) : v[i]);
  }
}

template <int R>
void gemm(const SplitGemmArgs& g) {
  alignas(64) float sums[R][kPartColumns][kPartRows];
  for (int64_t column = 0; column < g.cols; column += kPartColumns) {
    for (int64_t first = 0; first < kPartColumns; first += 16 / R) multiply<R>(g, column, sums, first);
    for (int64_t r = 0; r < R; ++r) {
      write_sums(sums[r], std::min(g.rows - r * kPartRows, kPartRows), g.c + r * kPartRows, column, g.accumulate);
    }
  }
}

}  // namespace

void bf16_split_gemm_avx512_bf16(const SplitGemmArgs* calls, int64_t count) {
  for (const SplitGemmArgs* call = calls; call != calls + count; ++call) {
    call->rows > kPartRows ? gemm<2>(*call) : gemm<1>(*call);
  }
}

}  // namespace ortconv::kernels

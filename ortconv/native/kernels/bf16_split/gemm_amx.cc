#include <immintrin.h>

#include <algorithm>

#include "base/math.h"
#include "kernels/bf16_split/bf16_split.h"
#include "kernels/transpose16_avx512.h"
#include "kernels/unroll.h"

namespace ortconv::kernels {
namespace {

constexpr int64_t kTile = kPartRows * kPartChannels;         // numbers of one tile of weights, or of cells
constexpr int64_t kLine = kPartChannels * sizeof(uint16_t);  // bytes of one row of either

// Asks for `Lines` cache lines from `at` on.
template <int Lines>
inline void prefetch(const uint16_t* at) {
  ORTCONV_UNROLL
  for (int i = 0; i < Lines; ++i) {
    _mm_prefetch(reinterpret_cast<const char*>(at + i * kPartChannels), _MM_HINT_T0);
  }
}

// Every tile has 16 rows of 64 bytes. 0 to 5 hold sums, 6 cells and 7 weights; the CPU renames the latter two.
struct alignas(64) TileConfig {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {kLine, kLine, kLine, kLine, kLine, kLine, kLine, kLine};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

// Adds the products of one tap and one block of channels, of one part with another, to P tiles of cells by R of rows.
// (Tiles are named in the instruction, hence no loops.)
template <int P, int R>
inline void multiply_parts(const uint16_t* cells, const uint16_t* weights) {
  static_assert(P >= 1 && P <= (R == 1 ? 6 : 3) && R >= 1 && R <= 2, "six tiles of sums");
  _tile_loadd(7, weights, kLine);
  _tile_loadd(6, cells, kLine);
  _tile_dpbf16ps(0, 6, 7);
  if constexpr (P > 1) {
    _tile_loadd(6, cells + kTile, kLine);
    _tile_dpbf16ps(1, 6, 7);
  }
  if constexpr (P > 2) {
    _tile_loadd(6, cells + 2 * kTile, kLine);
    _tile_dpbf16ps(2, 6, 7);
  }
  if constexpr (P > 3) {
    _tile_loadd(6, cells + 3 * kTile, kLine);
    _tile_dpbf16ps(3, 6, 7);
  }
  if constexpr (P > 4) {
    _tile_loadd(6, cells + 4 * kTile, kLine);
    _tile_dpbf16ps(4, 6, 7);
  }
  if constexpr (P > 5) {
    _tile_loadd(6, cells + 5 * kTile, kLine);
    _tile_dpbf16ps(5, 6, 7);
  }
  if constexpr (R > 1) {
    _tile_loadd(7, weights + kTile, kLine);
    if constexpr (P > 2) {  // the last one is still there
      _tile_dpbf16ps(5, 6, 7);
      _tile_loadd(6, cells + kTile, kLine);
    }
    if constexpr (P > 1) {
      _tile_dpbf16ps(4, 6, 7);
      _tile_loadd(6, cells, kLine);
    }
    _tile_dpbf16ps(3, 6, 7);
  }
}

// Tiles of sums on their way to C. They are turned around and written between the products of the next tiles, which
// hides the time that takes.
class Sums {
 public:
  explicit Sums() = default;

  // Takes the sums of P tiles of cells by R of rows at `column` of C out of the tile registers.
  template <int P, int R>
  void take(const SplitGemmArgs& g, int64_t column) {
    while (left_ > 0) write_one();
    _tile_stored(0, sums_[0], kLine);
    if constexpr (P > 1) _tile_stored(1, sums_[1], kLine);
    if constexpr (P > 2) _tile_stored(2, sums_[2], kLine);
    if constexpr (P > 3 || R > 1) _tile_stored(3, sums_[3], kLine);
    if constexpr (P > 4 || (R > 1 && P > 1)) _tile_stored(4, sums_[4], kLine);
    if constexpr (P > 5 || (R > 1 && P > 2)) _tile_stored(5, sums_[5], kLine);
    call_ = &g;
    column_ = column;
    width_ = P;
    left_ = P * R;
  }

  // Writes one tile, if there is any.
  inline void write() {
    if (left_ > 0) write_one();
  }
  void write_all() {
    while (left_ > 0) write_one();
  }

 private:
  void write_one();

  alignas(64) float sums_[6][kPartColumns][kPartRows];  // the second tile of rows begins at 3
  const SplitGemmArgs* call_;
  int64_t column_;
  int width_, left_ = 0;
};

#if defined(__GNUC__)
__attribute__((noinline))
#endif
void Sums::write_one() {
  --left_;
  const bool second = left_ >= width_;  // of the tiles of rows
  const int at = second ? left_ - width_ : left_;
  const int64_t row = second ? kPartRows : 0, rows = std::min(call_->rows - row, kPartRows);
  float* const* c = call_->c + row;
  const int64_t column = column_ + at * kPartColumns;
  const float (&sums)[kPartColumns][kPartRows] = sums_[second ? 3 + at : at];
  __m512 v[16];
  ORTCONV_UNROLL
  for (int i = 0; i < 16; ++i) v[i] = _mm512_load_ps(sums[i]);
  avx512::transpose16(v);
  ORTCONV_UNROLL
  for (int i = 0; i < 16; ++i) {
    if (i >= rows) continue;
    float* out = c[i] + column;
    _mm512_storeu_ps(out, call_->accumulate ? _mm512_add_ps(v[i], _mm512_loadu_ps(out)) : v[i]);
  }
}

template <int kParts, int P, int R>
void tile(const SplitGemmArgs& g, int64_t column, Sums& sums) {
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_zero(4);
  _tile_zero(5);
  // A step goes through all parts of one tap and one block of channels, and asks for what the next one needs. Without
  // that the loads of a tile, of which the CPU has only a few under way, wait for L2.
  constexpr int64_t kStep = kParts * R * kTile;
  constexpr int kProducts = kParts == 3 ? 6 : kParts * kParts;
  constexpr int kLines = kParts * kPartColumns / kProducts;  // with each product, of a tile
  const uint16_t* weights = g.a;
  const uint16_t* block = g.b + column * kPartChannels;
  for (int64_t k = 0; k < g.k; ++k, block += kParts * g.part_stride) {
    for (int64_t tap = 0; tap < g.taps; ++tap) {
      const uint16_t* cells = block + g.tap_offset[tap] * kPartChannels;
      const uint16_t* next = tap + 1 < g.taps ? block + g.tap_offset[tap + 1] * kPartChannels
                                              : block + kParts * g.part_stride + g.tap_offset[0] * kPartChannels;
      const uint16_t* next_weights = weights + kStep;
      int product = 0;
      ORTCONV_UNROLL
      for (int i = kParts - 1; i >= 0; --i) {
        ORTCONV_UNROLL
        for (int j = 0; j < kParts; ++j) {
          if (kParts == 3 && i + j > 2) continue;  // too small to matter
          prefetch<kLines * R>(next_weights + product * kLines * R * kPartChannels);
          prefetch<kLines * P>(next + product * kLines / kPartColumns * g.part_stride +
                               product * kLines % kPartColumns * P * kPartChannels);
          multiply_parts<P, R>(cells + i * g.part_stride, weights + j * R * kTile);
          sums.write();
          ++product;
        }
      }
      weights = next_weights;
    }
  }
  sums.take<P, R>(g, column);
}

using TileFn = void (*)(const SplitGemmArgs&, int64_t, Sums&);

template <int kParts>
void gemm(const SplitGemmArgs& g, Sums& sums) {
  static constexpr TileFn kNarrow[] = {tile<kParts, 1, 1>, tile<kParts, 2, 1>, tile<kParts, 3, 1>,
                                       tile<kParts, 4, 1>, tile<kParts, 5, 1>, tile<kParts, 6, 1>};
  static constexpr TileFn kWide[] = {tile<kParts, 1, 2>, tile<kParts, 2, 2>, tile<kParts, 3, 2>};
  const bool wide = g.rows > kPartRows;
  const TileFn* tiles = wide ? kWide : kNarrow;
  const int64_t most = wide ? 3 : 6;
  const int64_t count = g.cols / kPartColumns, steps = ceil_div(count, most);
  for (int64_t i = 0; i < steps; ++i) {
    const int64_t begin = count * i / steps, end = count * (i + 1) / steps;
    tiles[end - begin - 1](g, begin * kPartColumns, sums);
  }
}

}  // namespace

void bf16_split_gemm_amx(const SplitGemmArgs* calls, int64_t count) {
  static constexpr TileConfig kConfig;
  static constexpr void (*kGemm[])(const SplitGemmArgs&, Sums&) = {gemm<1>, gemm<2>, gemm<3>};
  Sums sums;
  _tile_loadconfig(&kConfig);
  for (int64_t i = 0; i < count; ++i) kGemm[calls[i].parts - 1](calls[i], sums);
  sums.write_all();
  _tile_release();
}

}  // namespace ortconv::kernels

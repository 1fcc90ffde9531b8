// Copying src for the GEMM: as rows of its B operand, or as strips of them.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "kernels/gemm_col2im/item.h"
#include "kernels/gemm_col2im/tiles.h"
#include "kernels/gemm_col2im/walk.h"
#include "kernels/prefetch.h"

namespace ortconv::kernels::gemm_col2im {

// Copies rows of kLength numbers, in_step apart.
template <int kLength, class Cell>
void copy_rows(const Cell* in, int64_t in_step, int64_t rows, Cell* out, int64_t out_step) {
  for (; rows > 0; --rows, in += in_step, out += out_step) std::memcpy(out, in, kLength * sizeof(Cell));
}
template <class Cell, int... kLengths>
constexpr auto copy_functions(std::integer_sequence<int, kLengths...>) {
  using Copy = void (*)(const Cell*, int64_t, int64_t, Cell*, int64_t);
  return std::array<Copy, sizeof...(kLengths)>{copy_rows<kLengths, Cell>...};
}
constexpr int kShortCopy = 16;
template <class Cell>
constexpr auto kCopyRows = copy_functions<Cell>(std::make_integer_sequence<int, kShortCopy + 1>());

// Of an image and a group, whose src begins at `src`.
template <class In>
struct SrcCopy {
  using Cell = Sum<In>;

  const Geometry& geo;
  const ConvProblem& problem;
  const im2col::Kernels<In>& kernels;
  const In* src;

  void rows(const Tile& tile, int64_t channel, int64_t depth, int64_t pitch, Cell* out) const;
  void strips(const Tile& tile, int64_t channel, int64_t depth, Cell* out) const;
};

// Copies some channels of src, from `channel` on, as rows of the B operand, with zeros up to whole vectors.
template <class In>
void SrcCopy<In>::rows(const Tile& tile, int64_t channel, int64_t depth, int64_t pitch, Cell* out) const {
  const int64_t src_c = problem.src_c;
  int along = geo.ndims - 1;  // the last axis with several positions
  while (along > 0 && geo.axis[along].x_count == 1) --along;
  const int64_t step = geo.axis[along].src_x;
  // Axes whose positions follow those of the axis before evenly are as good as one.
  int64_t unit = 1;
  while (along > 0 && geo.axis[along].x_count == geo.axis[along].src_size &&
         geo.axis[along - 1].src_x == geo.axis[along].src_x * geo.axis[along].src_size) {
    unit *= geo.axis[along--].x_count;
  }
  const auto copy_channels = [&](const In* in, int64_t in_step, int64_t length, Cell* to) {
    if constexpr (std::is_same_v<In, Cell>) {
      if (in_step == 1 && length <= kShortCopy) {
        return kCopyRows<Cell>[static_cast<size_t>(length)](in, src_c, depth, to, pitch);
      }
    }
    for (int64_t k = 0; k < depth; ++k) kernels.load(in + k * src_c, in_step, length, to + k * pitch);
  };
  if (const int64_t whole = im2col::whole_vectors(tile.columns); whole > tile.columns) {
    for (int64_t k = 0; k < depth; ++k) std::fill_n(out + k * pitch + whole - kGemmColumns, kGemmColumns, Cell());
  }
  const In* first = src + channel * src_c;
  if (geo.dense && src_c != 1) {
    copy_channels(first + geo.axis[0].x_begin * geo.inner_x + tile.begin, 1, tile.columns, out);
  } else {
    for (int a = 0; a < geo.ndims; ++a) first += geo.axis[a].x_begin * geo.axis[a].src_x;
    for_each_run(geo, along, unit, tile.begin, tile.begin + tile.columns,
                 [&](int64_t column, int64_t length, const int64_t* x, int64_t rest) {
                   const In* in = first + rest * step;
                   for (int a = 0; a <= along; ++a) in += x[a] * geo.axis[a].src_x;
                   if (src_c == 1) {
                     kernels.transpose.template from<In>()(in, step, length, depth, out + column, pitch);
                   } else {
                     copy_channels(in, step, length, out + column);
                   }
                 });
  }
}

// The same as strips, one after the other, each [channel][column].
template <class In>
void SrcCopy<In>::strips(const Tile& tile, int64_t channel, int64_t depth, Cell* out) const {
  const int64_t whole = tile.columns / kGemmColumns * kGemmColumns;
  int64_t copied = 0;
  if (geo.dense && problem.src_c != 1) {
    copied = whole / geo.strip * geo.strip;
    const In* in = src + channel * problem.src_c + geo.axis[0].x_begin * geo.inner_x + tile.begin;
    constexpr int64_t kAhead = 16;
    for (int64_t k = 0; k < depth; ++k, in += problem.src_c) {
      if (k + kAhead < depth) prefetch<Cache::kL2>(in + kAhead * problem.src_c, copied);
      for (int64_t column = 0; column < copied; column += geo.strip) {
        Cell* to = out + column * depth + k * geo.strip;
        if constexpr (!std::is_same_v<In, Cell>) {
          kernels.load(in + column, 1, geo.strip, to);
          continue;
        }
        for (int64_t i = 0; i < geo.strip; i += kGemmColumns) {
          std::memcpy(to + i, in + column + i, kGemmColumns * sizeof(Cell));
        }
      }
    }
  }
  Tile strip = tile;
  for (int64_t column = copied; column < tile.columns; column += geo.strip) {
    strip.begin = tile.begin + column;
    strip.columns = std::min(geo.strip, tile.columns - column);
    rows(strip, channel, depth, im2col::whole_vectors(strip.columns), out + column * depth);
  }
}

}  // namespace ortconv::kernels::gemm_col2im

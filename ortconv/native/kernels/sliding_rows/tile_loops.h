// The loops of a tile, for vectors of any instruction set. Only for files named after one.
//
// A Vectors<Cell> has the types Cell and Vector, kLanes, and zero, broadcast, load, add, multiply_add, and store and
// store_first, which round to any type.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "kernels/element.h"
#include "kernels/sliding_rows/tile.h"
#include "kernels/unroll.h"

namespace ortconv::kernels::sliding_rows {
namespace {

// Of so many registers, what sums and the loaded numbers leave is enough for a factor.
constexpr int most_vectors(int registers, int rows) {
  if (rows == 1) return static_cast<int>(kMostVectors);
  return registers == 32 ? 4 : rows == 2 ? 4 : 3;
}

// Channels, lines and steps of a piece.
struct Range {
  int64_t begin, end;
  static Range at(int64_t begin, int64_t length, int64_t all) { return {begin, std::min(begin + length, all)}; }
};

template <class V, int kRows, int kVectors, bool kShared>
ORTCONV_ALWAYS_INLINE inline void add_piece(const TileArgs<typename V::Cell>& args, const Range& channels,
                                            const Range& lines, const Range& steps,
                                            typename V::Vector (&sums)[kRows][kVectors]) {
  using Cell = typename V::Cell;
  for (int64_t channel = channels.begin; channel < channels.end; ++channel) {
    for (int64_t line = lines.begin; line < lines.end; ++line) {
      const Cell* sliding =
          args.sliding + channel * args.sliding_channel + args.lines[line].sliding - steps.begin * args.shift;
      const Cell* factors = args.factors + channel * args.factors_channel + args.lines[line].factors;
      const Cell* const end = factors + steps.end;
      for (factors += steps.begin; factors != end; ++factors, sliding -= args.shift) {
        if constexpr (kShared) {
          typename V::Vector numbers[kVectors];
          ORTCONV_UNROLL
          for (int v = 0; v < kVectors; ++v) {
            numbers[v] = V::load(sliding + v * V::kLanes);
            if constexpr (kRows > 1) ORTCONV_KEEP(numbers[v]);  // most are not aligned, and take two loads
          }
          ORTCONV_UNROLL
          for (int r = 0; r < kRows; ++r) {
            const auto factor = V::broadcast(factors[r * args.factors_row]);
            ORTCONV_UNROLL
            for (int v = 0; v < kVectors; ++v) sums[r][v] = V::multiply_add(factor, numbers[v], sums[r][v]);
          }
        } else {
          const auto factor = V::broadcast(*factors);
          ORTCONV_UNROLL
          for (int r = 0; r < kRows; ++r) {
            ORTCONV_UNROLL
            for (int v = 0; v < kVectors; ++v) {
              sums[r][v] = V::multiply_add(factor, V::load(sliding + r * args.sliding_row + v * V::kLanes), sums[r][v]);
            }
          }
        }
      }
    }
  }
}

// Writes a row of sums.
template <class V, class Out>
ORTCONV_ALWAYS_INLINE inline void store_row(const typename V::Vector* sums, int64_t vectors, int64_t columns,
                                            typename V::Vector bias, Out* out) {
  ORTCONV_UNROLL
  for (int64_t v = 0; v < vectors; ++v, out += V::kLanes) {
    const int64_t left = columns - v * V::kLanes;
    if (left >= V::kLanes) {
      V::store(out, V::add(sums[v], bias));
    } else {
      V::store_first(left, out, V::add(sums[v], bias));
    }
  }
}

// Writes rows of so many sums, whose rounding takes several instructions: one function for all sizes of tiles.
template <class V>
void store_bfloat16(const TileArgs<typename V::Cell>& args, const typename V::Vector* sums, int64_t vectors) {
  auto* out = static_cast<Bfloat16*>(args.out);
  for (int64_t r = 0; r < args.rows; ++r, out += args.out_row, sums += vectors) {
    store_row<V>(sums, vectors, args.columns, V::broadcast(args.bias[r]), out);
  }
}

// Writes the rows of a tile.
template <class V, class Out, int kRows, int kVectors>
ORTCONV_ALWAYS_INLINE inline void store_rows(const TileArgs<typename V::Cell>& args,
                                             const typename V::Vector (&sums)[kRows][kVectors]) {
  ORTCONV_UNROLL
  for (int r = 0; r < kRows; ++r) {
    store_row<V>(sums[r], kVectors, args.columns, V::broadcast(args.bias[r]),
                 static_cast<Out*>(args.out) + r * args.out_row);
  }
}

template <class V, int kRows, int kVectors, bool kShared>
void run_tile(const TileArgs<typename V::Cell>& args) {
  using Cell = typename V::Cell;
  const Piece& piece = args.piece;
  typename V::Vector sums[kRows][kVectors], totals[kRows][kVectors] = {};
  Range channels = Range::at(0, piece.channels, args.channels), lines, steps;
  lines = Range::at(0, piece.lines, args.num_lines), steps = Range::at(0, piece.steps, args.steps);
  while (true) {
    ORTCONV_UNROLL
    for (int r = 0; r < kRows; ++r) {
      ORTCONV_UNROLL
      for (int v = 0; v < kVectors; ++v) sums[r][v] = V::zero();
    }
    add_piece<V, kRows, kVectors, kShared>(args, channels, lines, steps, sums);
    ORTCONV_UNROLL
    for (int r = 0; r < kRows; ++r) {
      ORTCONV_UNROLL
      for (int v = 0; v < kVectors; ++v) sums[r][v] = V::add(totals[r][v], sums[r][v]);
    }
    if (steps.end < args.steps) {
      steps = Range::at(steps.end, piece.steps, args.steps);
    } else if (lines.end < args.num_lines) {
      lines = Range::at(lines.end, piece.lines, args.num_lines), steps = Range::at(0, piece.steps, args.steps);
    } else if (channels.end < args.channels) {
      channels = Range::at(channels.end, piece.channels, args.channels);
      lines = Range::at(0, piece.lines, args.num_lines), steps = Range::at(0, piece.steps, args.steps);
    } else {
      break;
    }
    ORTCONV_UNROLL
    for (int r = 0; r < kRows; ++r) {
      ORTCONV_UNROLL
      for (int v = 0; v < kVectors; ++v) totals[r][v] = sums[r][v];
    }
  }
  if constexpr (std::is_same_v<Cell, float>) {
    if (args.type == DataType::kFloat16) return store_rows<V, Float16>(args, sums);
    if (args.type == DataType::kBfloat16) {
      // The sums themselves have no address, or they would not be held in registers.
      typename V::Vector copies[kRows * kVectors];
      ORTCONV_UNROLL
      for (int i = 0; i < kRows * kVectors; ++i) copies[i] = sums[i / kVectors][i % kVectors];
      return store_bfloat16<V>(args, copies, kVectors);
    }
  }
  store_rows<V, Cell>(args, sums);
}

template <class V, int kRows, bool kShared, int... kCounts>
TileFn<typename V::Cell> tile_of(int64_t vectors, std::integer_sequence<int, kCounts...>) {
  static constexpr TileFn<typename V::Cell> kTiles[] = {run_tile<V, kRows, kCounts + 1, kShared>...};
  return kTiles[vectors - 1];
}

template <class V, int kRegisters, int kRows>
TileFn<typename V::Cell> tile_of_rows(int64_t vectors, bool shares_sliding) {
  constexpr std::make_integer_sequence<int, most_vectors(kRegisters, kRows)> kCounts{};
  if (kRows == 1 || shares_sliding) return tile_of<V, kRows, true>(vectors, kCounts);
  return tile_of<V, kRows, false>(vectors, kCounts);
}

template <class V, int kRegisters>
TileFn<typename V::Cell> any_tile(int64_t rows, int64_t vectors, bool shares_sliding) {
  switch (rows) {
    case 1:
      return tile_of_rows<V, kRegisters, 1>(vectors, shares_sliding);
    case 2:
      return tile_of_rows<V, kRegisters, 2>(vectors, shares_sliding);
    case 3:
      return tile_of_rows<V, kRegisters, 3>(vectors, shares_sliding);
    default:
      return tile_of_rows<V, kRegisters, kMostRows>(vectors, shares_sliding);
  }
}

template <class Floats, class Doubles, int kRegisters>
constexpr TileKernel tile_kernel(const char* name) {
  return {name,
          Floats::kLanes * static_cast<int64_t>(sizeof(float)),
          {0, most_vectors(kRegisters, 1), most_vectors(kRegisters, 2), most_vectors(kRegisters, 3),
           most_vectors(kRegisters, 4)},
          {any_tile<Floats, kRegisters>, any_tile<Doubles, kRegisters>}};
}

}  // namespace
}  // namespace ortconv::kernels::sliding_rows

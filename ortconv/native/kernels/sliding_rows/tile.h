// Sums of rows that slide: the inner loops.
//
// A new kernel supplies a TileKernel, in a file named after its ISA, and one row in kernels.inc.
#pragma once

#include <cstdint>
#include <tuple>

#include "base/arch.h"
#include "base/dtype.h"

namespace ortconv::kernels::sliding_rows {

constexpr int64_t kMostRows = 4;     // of a tile
constexpr int64_t kMostVectors = 8;  // of a row of a tile

// A pair of rows: where in the first channel of the sliding operand and of the factors each begins.
struct Line {
  int64_t sliding, factors;
};

// What is summed by a single chain of multiply-adds, at most. Pieces are added one after the other.
struct Piece {
  int64_t channels, lines, steps;
};

// out[row][x] = bias[row] + sum over channels, lines and 0 <= t < steps of
//                            sliding[row][x - t * shift] * factors[row][t]
//
// for 0 <= x < columns. A tile may read vectors * lanes - 1 numbers beyond either end of a row of the sliding operand.
template <class Cell>
struct TileArgs {
  int64_t rows, columns;
  int64_t channels, sliding_channel, factors_channel;  // and the distances between them
  int64_t num_lines;
  const Line* lines;
  int64_t steps, shift;
  Piece piece;
  const Cell* sliding;
  int64_t sliding_row;  // not read where all rows of the tile share it
  const Cell* factors;
  int64_t factors_row;  // not read where they share these
  const Cell* bias;     // one for each row
  DataType type;        // of what is written: that of sums, or one of 16 bits
  void* out;
  int64_t out_row;  // in numbers
};

template <class Cell>
using TileFn = void (*)(const TileArgs<Cell>&);

// The function for tiles of so many rows, and of so many vectors in each.
template <class Cell>
using FindTileFn = TileFn<Cell> (*)(int64_t rows, int64_t vectors, bool shares_sliding);

struct TileKernel {
  const char* name;
  int64_t bytes;                        // of a vector
  int64_t most_vectors[kMostRows + 1];  // of a tile with so many rows
  std::tuple<FindTileFn<float>, FindTileFn<double>> find;

  template <class Cell>
  int64_t lanes() const {
    return bytes / static_cast<int64_t>(sizeof(Cell));
  }
};

// The best kernel for these flags; the portable one when no other fits.
const TileKernel& get_tile_kernel(const ArchFlags& arch);

}  // namespace ortconv::kernels::sliding_rows

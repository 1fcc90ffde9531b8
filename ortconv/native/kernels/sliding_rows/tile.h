// Sums of rows that slide: the inner loops.
//
// A new kernel supplies a TileKernel, in a file named after its ISA, and one row in kernels.inc.
#pragma once

#include <cstdint>
#include <tuple>

#include "base/arch.h"

namespace ortconv::kernels::sliding_rows {

constexpr int64_t kMostRows = 4;     // of a tile
constexpr int64_t kMostVectors = 8;  // of a row of a tile

// Where a pair of rows begins in the image and in the factors of the first channel.
struct Line {
  int64_t image, factors;
};

// sums[row][x] = sum over channels, lines and 0 <= t < steps of image[row][x - t * shift] * factors[row][t]
//
// for 0 <= x < columns. A piece is a single chain of multiply-adds; pieces are added one after the other. A tile may
// read vectors * lanes - 1 numbers beyond either end of a row of the image.
struct Piece {
  int64_t channels, lines, steps;  // most of them
};

template <class Cell>
struct TileArgs {
  int64_t rows, columns;
  int64_t vectors;                                   // that hold the columns
  int64_t channels, image_channel, factors_channel;  // and the distances between them
  int64_t num_lines;
  const Line* lines;
  int64_t steps, shift;
  Piece piece;
  const Cell* image;
  int64_t image_row;  // zero: all rows of the tile share the image
  const Cell* factors;
  int64_t factors_row;  // zero: they share the factors, unless they share the image
  const Cell* bias;     // one for each row
  Cell* sums;
  int64_t sums_row;
};

template <class Cell>
using TileFn = void (*)(const TileArgs<Cell>&);

struct TileKernel {
  const char* name;
  int64_t bytes;                        // of a vector
  int64_t most_vectors[kMostRows + 1];  // of a tile with so many rows
  std::tuple<TileFn<float>, TileFn<double>> run;

  template <class Cell>
  int64_t lanes() const {
    return bytes / static_cast<int64_t>(sizeof(Cell));
  }
};

// The best kernel for these flags; the portable one when no other fits.
const TileKernel& get_tile_kernel(const ArchFlags& arch);

}  // namespace ortconv::kernels::sliding_rows

// The tiles of a part, and how threads share them.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/math.h"
#include "kernels/gemm_col2im/item.h"

namespace ortconv::kernels::gemm_col2im {

// A tile of positions of a part, and of rows of its weights.
struct Tile {
  int64_t begin, columns;  // counted from the first position of all that are multiplied
  int64_t row_begin, row_end;
};

// The positions of a part, counted from the first one of all that are multiplied. Tiles begin where they would in any
// slab, so that what is added to a sum does not depend on the slabs: at multiples of their width from the origin.
struct Columns {
  int64_t begin, end, origin;
};

inline Columns columns_of(const Geometry& geo, const Part& part) {
  const int64_t begin = (part.x_begin - geo.axis[0].x_begin) * geo.inner_x;
  return {begin, begin + part.x_count * geo.inner_x, geo.direct ? begin : 0};
}

// The tiles of a part as threads share them: some rows of some columns of a tile are a range.
class SharedTiles {
 public:
  // Columns of a tile, which begins at another one.
  struct Range {
    int64_t tile_begin, begin, end;
    int64_t row_begin, row_end;
  };

  SharedTiles(const Plan& plan, const Geometry& geo, const Part& part)
      : geo_(geo), columns_(columns_of(geo, part)), row_begin_(part.channel * plan.taps) {
    row_end_ = row_begin_ + part.channels * plan.taps;
    num_rows_ = ceil_div(row_end_ - first_row(), geo.shared_rows);
    first_end_ = std::min(columns_.end, columns_.begin + left_of(columns_.begin));
    first_pieces_ = pieces(first_end_ - columns_.begin);
    const int64_t rest = columns_.end - first_end_;
    num_pieces_ = first_pieces_ + rest / geo.most_columns * pieces(geo.most_columns) + pieces(rest % geo.most_columns);
  }

  int64_t num_ranges() const { return num_pieces_ * num_rows_; }
  int64_t first_row() const { return row_begin_ / geo_.panel_height * geo_.panel_height; }  // of a panel

  Range range(int64_t index) const {
    Range found;
    const int64_t row = first_row() + index % num_rows_ * geo_.shared_rows;
    found.row_begin = std::max(row, row_begin_), found.row_end = std::min(row + geo_.shared_rows, row_end_);
    int64_t piece = index / num_rows_, tile_end = first_end_;
    found.tile_begin = columns_.begin;
    if (piece >= first_pieces_) {
      piece -= first_pieces_;
      const int64_t of_each = pieces(geo_.most_columns);
      found.tile_begin = first_end_ + piece / of_each * geo_.most_columns;
      tile_end = std::min(found.tile_begin + geo_.most_columns, columns_.end);
      piece %= of_each;
    }
    found.begin = found.tile_begin + piece * geo_.shared_columns;
    found.end = std::min(found.begin + geo_.shared_columns, tile_end);
    return found;
  }

 private:
  int64_t pieces(int64_t columns) const { return ceil_div(columns, geo_.shared_columns); }
  // Columns from one to the end of its tile.
  int64_t left_of(int64_t column) const { return geo_.most_columns - (column - columns_.origin) % geo_.most_columns; }

  const Geometry& geo_;
  const Columns columns_;
  int64_t row_begin_, row_end_, num_rows_;
  int64_t first_end_, first_pieces_;  // of the first tile
  int64_t num_pieces_;                // of all
};

}  // namespace ortconv::kernels::gemm_col2im

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

// The tiles of a part as threads share them: some rows of some columns, which may be of several tiles, are a range.
class SharedTiles {
 public:
  struct Range {
    int64_t begin, end;
    int64_t row_begin, row_end;
  };

  SharedTiles(const Plan& plan, const Geometry& geo, const Part& part)
      : geo_(geo),
        columns_(columns_of(geo, part)),
        row_begin_(part.channel * plan.taps),
        row_end_(row_begin_ + part.channels * plan.taps),
        num_rows_(ceil_div(row_end_ - first_row(), geo.shared_rows)),
        num_columns_(ceil_div(columns_.end - columns_.begin, geo.shared_columns)) {}

  int64_t num_ranges() const { return num_columns_ * num_rows_; }
  int64_t first_row() const { return row_begin_ / geo_.panel_height * geo_.panel_height; }  // of a panel

  Range range(int64_t index) const {
    const int64_t row = first_row() + index % num_rows_ * geo_.shared_rows, columns = index / num_rows_;
    return {border(columns), border(columns + 1), std::max(row, row_begin_),
            std::min(row + geo_.shared_rows, row_end_)};
  }
  // Where the tile of a column begins.
  int64_t tile_of(int64_t column) const {
    return std::max(columns_.begin, column - (column - columns_.origin) % geo_.most_columns);
  }

 private:
  // Where the columns of a range begin: after whole vectors of a tile, which the GEMM writes.
  int64_t border(int64_t range) const {
    if (range == num_columns_) return columns_.end;
    const int64_t column = columns_.begin + range * geo_.shared_columns;
    return column - (column - tile_of(column)) % kGemmColumns;
  }

  const Geometry& geo_;
  const Columns columns_;
  const int64_t row_begin_, row_end_, num_rows_, num_columns_;
};

}  // namespace ortconv::kernels::gemm_col2im

// The tiles of a part, and how threads share them.
#pragma once

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
struct SharedTiles {
  int64_t first_columns, num_columns;  // tiles
  int64_t pieces;                      // of the columns of each
  int64_t first_row, num_rows;         // the beginning of a panel; ranges

  SharedTiles(const Plan& plan, const Geometry& geo, const Part& part) {
    const Columns columns = columns_of(geo, part);
    first_columns = (columns.begin - columns.origin) / geo.most_columns;
    num_columns = ceil_div(columns.end - columns.origin, geo.most_columns) - first_columns;
    pieces = ceil_div(geo.most_columns, geo.shared_columns);
    const int64_t begin = part.channel * plan.taps;
    first_row = begin / geo.panel_height * geo.panel_height;
    num_rows = ceil_div(begin + part.channels * plan.taps - first_row, geo.shared_rows);
  }
  int64_t num_ranges() const { return num_columns * pieces * num_rows; }
};

}  // namespace ortconv::kernels::gemm_col2im

// Adding the products of a tile to the sums of its part.
#pragma once

#include <algorithm>

#include "kernels/gemm_col2im/item.h"
#include "kernels/gemm_col2im/lists.h"
#include "kernels/gemm_col2im/tiles.h"

namespace ortconv::kernels::gemm_col2im {

template <class In>
class Adder {
 public:
  using Cell = Sum<In>;

  // What lists says is of the tile that is added.
  Adder(const Operands<In>& operands, const Part& part, const PartLists& lists, Cell* sums)
      : operands_(operands), geo_(operands.geometry), part_(part), lists_(lists), sums_(sums) {}

  void clear() const { std::fill_n(sums_, part_.channels * geo_.channel_size, Cell()); }
  // Adds the rows of a tile.
  void add(const Tile& tile, const Cell* products) const;
  // The sums of the channels of a tile, from parts of its rows: see Geometry::sums_parts.
  void sum(const Tile& tile, const Cell* products) const;

 private:
  int64_t j_count(int a) const { return a == 0 ? part_.j_count : geo_.axis[a].j_count; }  // of the part
  bool is_inside(const Segment& segment, const int64_t* shifts, int axes) const;
  void add_some(const Row& row, const Cell* in, Cell* sums) const;
  void add_lines(const int64_t* shifts, const Cell* in, int64_t length, Cell* out) const;
  void add_segments(const Cell* in, const Segment* begin, const Segment* end, int64_t length, Cell* out) const;

  const Operands<In>& operands_;
  const Geometry& geo_;
  const Part& part_;
  const PartLists& lists_;
  Cell* const sums_;
};

}  // namespace ortconv::kernels::gemm_col2im

// Multiplying the weights of a tile by src.
#pragma once

#include "kernels/gemm_col2im/item.h"
#include "kernels/gemm_col2im/lists.h"
#include "kernels/gemm_col2im/tiles.h"

namespace ortconv::kernels::gemm_col2im {

// Where the products of a part go: rows for one tile, and before these are transposed; sums of several calls of the
// GEMM; the sums of the part, where these are the products, in the scratch or in dst.
template <class Cell>
struct ProductRoom {
  Cell *products, *transposed, *totals, *sums;
  char* dst;              // of the part, where its numbers are the sums
  int64_t channel_pitch;  // of the sums
};

template <class In>
class Multiplier {
 public:
  using Cell = Sum<In>;

  // What lists says is of the tile that is multiplied; room may change from tile to tile. copied: room for copies of
  // src.
  Multiplier(const Operands<In>& operands, const Part& part, const PartLists& lists, const ProductRoom<Cell>& room,
             Cell* copied, Copies* copies);

  // Returns the products of a tile, [row][column]; null where they are the sums.
  const Cell* multiply(const Tile& tile) const;

 private:
  // Some channels of src, `step` apart, whose products begin a sum or go on with it.
  struct Source {
    int64_t channel, depth;
    const In* in;        // in place
    const Cell* copied;  // null where they are read in place
    int64_t step;        // of those that are multiplied
    Cell* to_write;      // the copy, if it is not there yet: the first panel writes its whole strips; else null
    bool accumulate;
  };

  Source source(const Tile& tile, int64_t channel, int64_t depth, bool accumulate) const;
  template <class B, class Fn>
  void for_each_panel(const Tile& tile, Fn fn) const;
  void multiply_panels(const Tile& tile, const Source& source) const;
  template <class Weight>
  void multiply_wide_panels(const Tile& tile, const Source& source) const;
  template <class T>
  const T* weights_from(int64_t offset) const {
    return static_cast<const T*>(operands_.packed) + offset;
  }
  void multiply_panel(const Tile& tile, int64_t panel, const Source& source, BasicGemmArgs<Cell> args) const;
  // The rows [begin, end) of a tile that a panel has.
  struct Rows {
    int64_t begin, end;
  };
  Rows rows_of(const Tile& tile, int64_t panel) const;
  bool multiplies_first_panel(const Tile& tile) const;
  Cell* moved_in_dst(Cell* row, int64_t n) const;
  const Cell* load_bias(const Rows& rows, Cell* to) const;
  template <class B>
  void multiply_columns(const BasicGemmArgs<Cell, B>& args) const;
  template <class Number, class B>
  void multiply_into_dst(const BasicGemmArgs<Cell, B>& all) const;
  template <class Weight>
  void multiply_wide_panel(const Tile& tile, int64_t panel, const Source& source,
                           BasicGemmArgs<Cell, Weight> args) const;
  void multiply_rows(const Tile& tile, const Source& source) const;
  const Cell* transpose(const Tile& tile, const Cell* products) const;

  const Operands<In>& operands_;
  const Plan& plan_;
  const Geometry& geo_;
  const ConvProblem& problem_;
  const Part& part_;
  const PartLists& lists_;
  const ProductRoom<Cell>& out_;
  Cell* const copied_;
  Copies& copies_;
  const int64_t pitch_;
  const In* src_;
  const Columns columns_;
};

}  // namespace ortconv::kernels::gemm_col2im

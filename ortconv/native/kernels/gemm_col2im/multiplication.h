// How src and weights are multiplied: positions of a tile, which operand each is, how long calls of the GEMM are.
#pragma once

#include <cstdint>

#include "kernels/gemm_col2im/writing.h"

namespace ortconv::kernels::gemm_col2im {

// Bytes of src, or of the copy of a tile of it, that stay in L2 while several panels are multiplied with them.
constexpr int64_t kNearSrc = 256 << 10, kDeepTile = 640 << 10;
constexpr int64_t kNearWeights = 1 << 20;  // bytes, which stay in L2
// Positions of a row of src: longer runs come from memory no faster.
constexpr int64_t kLongRun = 256;

struct Multiplication : Writing {
  int vector_axis;         // its positions and those of the axes after it go to sums that are next to each other
  int64_t unit;            // positions of the axes after it
  int64_t inner_x;         // positions of src of one of the first axis
  int64_t slots, inner_j;  // of all axes; sums of one of the first axis in one slot
  bool direct;             // every sum is of one tap and the GEMM writes it
  bool in_dst;             // the same in dst, whose positions are those of src, rounded if it has 16 bits
  // The weights are the B operand of the GEMM, in wide panels, or single rows of them are multiplied with a single
  // position (dots). The result is transposed.
  bool wide, dots;
  bool by_rows;          // it is not: the steps read sums that lie in a row for each position
  bool narrow;           // src of 16 bits is widened as it is read or copied, not before
  bool reads_in_place;   // src
  int64_t most_columns;  // positions of a tile
  int64_t tile_columns;  // room for so many
  int64_t panel_height;  // rows of weights
  int64_t depth;         // src channels that one call of the GEMM adds up
  int64_t piece;         // products that are summed one after the other

  Multiplication(const Plan& plan, const ConvProblem& p);
  int64_t positions() const { return axis[0].x_count * inner_x; }  // that are multiplied
  // Bytes of src, as the GEMM or a copy reads it.
  int64_t src_bytes(const Plan& plan, const ConvProblem& p) const { return p.mb * p.ic * src_row_bytes(plan, p); }

 private:
  int64_t number_bytes(const Plan& plan) const;
  int64_t src_row_bytes(const Plan& plan, const ConvProblem& p) const { return p.src_c * number_bytes(plan); }
  void count_sums();
  void choose_columns(int64_t usual);
  bool prefers_dots(const Plan& plan, const ConvProblem& p) const;
  bool prefers_wide(const Plan& plan) const;
  int64_t wide_height(const Plan& plan, const ConvProblem& p) const;
  void choose_reading(const Plan& plan, const ConvProblem& p);
  bool cuts_vectors(const Plan& plan) const;
  void choose_columns_of_copy(const Plan& plan);
  void choose_columns_in_place(const Plan& plan);
  bool pays_in_place(const Plan& plan, const ConvProblem& p) const;
  bool pays_without_prefetch(const Plan& plan, int64_t row, int64_t bytes) const;
  bool may_multiply_into_dst(const Plan& plan, const ConvProblem& p) const;
  bool sums_by_rows() const;
  void choose_depth(const Plan& plan, const ConvProblem& p);
};

}  // namespace ortconv::kernels::gemm_col2im

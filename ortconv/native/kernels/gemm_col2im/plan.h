// What is known of a node before its inputs: how its weights are packed.
//
// The rows of a group of channels are its dst channels, and in each the taps, row-major. Weights are packed in panels
// of rows: [group][panel][src channel][row]. The GEMM takes panels of its own height as its A operand, or, for few
// positions of src, wide ones as its B operand, which stay 16 bits wide where the GEMM widens them. Panels of a single
// row are multiplied with a single position.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <mutex>

#include "base/buffer.h"
#include "kernels/gemm_col2im/gemm_col2im.h"
#include "kernels/im2col/product.h"

namespace ortconv::kernels::gemm_col2im {

struct Geometry;
struct StepLists;
struct TileLists;

struct Plan {
  DataType dtype;
  ArchFlags arch;
  int64_t g, ic, oc;  // channels per group of channels
  int64_t taps;
  int64_t mr;         // most rows of one call of the GEMM
  int64_t height;     // rows of a panel; the last one of a group may have fewer
  bool widens;        // the GEMM takes a B of the 16 bits that src and weights have
  bool takes_strips;  // the GEMM takes strips of B, which it may copy as it reads B
  Rounding rounding;  // of sums by the GEMM, if it can, to the 16 bits that dst has
  Buffer packed;      // panels; empty when the weights are not constant

  Plan(const ConvProblem& static_part, DataType dtype, const ArchFlags& arch);

  int64_t cell_bytes() const { return static_cast<int64_t>(sum_size_of(dtype)); }  // of a sum
  int64_t rows() const { return oc * taps; }                                       // of one group of channels
  int64_t packed_size() const { return g * rows() * ic; }

  // The same in panels of one of kWideHeights, which are allocated and packed on the first call; null when the weights
  // are not constant.
  const void* wide(int64_t height) const;
  int64_t wide_rows() const { return align_up(rows(), kGemmColumns); }  // with those that fill the last panel
  int64_t wide_size() const { return g * wide_rows() * ic; }
  // Bytes of a number of panels of that height.
  size_t bytes_in(int64_t height) const;
  int64_t rows_in(int64_t height) const { return height <= mr ? rows() : wide_rows(); }  // in panels of that height

  // The steps that write so many channels of dst. They are listed when they are not those of the last call.
  std::shared_ptr<const StepLists> steps(const Geometry& geometry, int64_t channels) const;
  // Where the products of the only tile of every part go, listed likewise.
  std::shared_ptr<const TileLists> lists(const Geometry& geometry) const;

  static constexpr int kNumWide = 5;

 private:
  struct Wide {
    std::once_flag once;
    Buffer panels;
  };
  mutable Wide wide_[kNumWide];
  mutable std::mutex listing_;
  mutable std::shared_ptr<const StepLists> steps_;
  mutable std::shared_ptr<const TileLists> lists_;
};

// Rows of wide panels: as im2col::panel_rows() has them, but at least two vectors, or for few positions as many as the
// GEMM has sums of one. The last panel of a group may have fewer vectors. Or single rows.
constexpr int64_t kHeightOfFew = 64, kTwoVectors = 32;
constexpr int64_t kWideHeights[Plan::kNumWide] = {1, kGemmColumns, kTwoVectors, kHeightOfFew, im2col::kMostPanelRows};

// Rows of calls that have about as many each, as few take as long as some more. At least one.
inline int64_t even_height(int64_t rows, int64_t most) { return rows == 0 ? 1 : ceil_div(rows, ceil_div(rows, most)); }

// As many rows as calls of these take time for: four, where they have fewer.
inline int64_t rows_of_calls(int64_t rows, int64_t most) {
  const int64_t height = even_height(rows, most), rest = rows % height, least = std::min<int64_t>(4, most);
  return rows / height * std::max(height, least) + (rest == 0 ? 0 : std::max(rest, least));
}

// Packs the weights of one panel, of plan.height rows or a wide one, into `packed`, the start of the array of all
// panels.
void pack_weights(const Plan& plan, const ConvProblem& static_part, const void* wei, int64_t height, int64_t group,
                  int64_t panel, void* packed);
inline int64_t num_panels(const Plan& plan, int64_t height) { return ceil_div(plan.rows(), height); }

}  // namespace ortconv::kernels::gemm_col2im

// What is known of a node before its inputs: how its weights are packed.
//
// The rows of a group of channels are its dst channels, and in each the taps, row-major. Weights are packed in panels
// of rows: [group][panel][src channel][row]. The GEMM takes panels of its own height as its A operand, or, for few
// positions of src, wide ones as its B operand.
#pragma once

#include <cstdint>
#include <mutex>

#include "kernels/conv/plan.h"
#include "kernels/gemm_col2im/gemm_col2im.h"

namespace ortconv::kernels::gemm_col2im {

struct Plan {
  DataType dtype;
  ArchFlags arch;
  int64_t g, ic, oc;  // channels per group of channels
  int64_t taps;
  int64_t mr;           // rows of a panel; the last one of a group may have fewer
  int64_t wide_height;  // rows of a wide panel
  Buffer packed;        // panels of mr rows; empty when the weights are not constant

  Plan(const ConvProblem& static_part, DataType dtype, const ArchFlags& arch);

  int64_t rows() const { return oc * taps; }  // of one group of channels
  int64_t packed_size() const { return g * rows() * ic; }

  // The same in wide panels, which are allocated and packed on the first call; null when the weights are not constant.
  const void* wide() const;
  int64_t wide_rows() const { return align_up(rows(), kGemmColumns); }  // with those that fill the last panel
  int64_t wide_size() const { return g * wide_rows() * ic; }

 private:
  mutable std::once_flag wide_once_;
  mutable Buffer wide_;
};

// Rows of wide panels: a vector of rows, so that all their channels are next to each other, or more where few channels
// make a call short; the last panel of a group may have fewer vectors. An odd number of vectors, or the rows of the B
// operand would evict each other.
constexpr int64_t kLeastWideHeight = 16, kMostWideHeight = 112;

constexpr int64_t kChain = 128;  // a single chain of so few products is what ONNX Runtime sums

// Packs the weights of one panel, wide or not, into `packed`, the start of the array of all panels.
void pack_weights(const Plan& plan, const ConvProblem& static_part, const void* wei, bool wide, int64_t group,
                  int64_t panel, void* packed);
inline int64_t num_panels(const Plan& plan, bool wide) {
  return ceil_div(plan.rows(), wide ? plan.wide_height : plan.mr);
}

}  // namespace ortconv::kernels::gemm_col2im

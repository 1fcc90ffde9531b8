// What is known of a node before its inputs: how its weights are packed.
//
// The rows of a group of channels are its dst channels, and in each the taps, row-major. Weights are packed in panels
// of rows: [group][panel][src channel][row].
#pragma once

#include <cstdint>

#include "kernels/conv/plan.h"
#include "kernels/gemm_col2im/gemm_col2im.h"

namespace ortconv::kernels::gemm_col2im {

struct Plan {
  DataType dtype;
  ArchFlags arch;
  int64_t g, ic, oc;  // channels per group of channels
  int64_t taps;
  int64_t mr;     // rows of a panel; the last one of a group may have fewer
  int64_t depth;  // src channels that one call of the GEMM adds up
  int64_t piece;  // products that are summed one after the other
  Buffer packed;  // empty when the weights are not constant

  Plan(const ConvProblem& static_part, DataType dtype, const ArchFlags& arch);

  int64_t rows() const { return oc * taps; }  // of one group of channels
  int64_t panels() const { return ceil_div(rows(), mr); }
  int64_t packed_size() const { return g * rows() * ic; }
};

// Packs the weights of one panel into `packed`, the start of the array of all panels.
void pack_weights(const Plan& plan, const ConvProblem& static_part, const void* wei, int64_t group, int64_t panel,
                  void* packed);

}  // namespace ortconv::kernels::gemm_col2im

// What is known of a node before its inputs: rows of the GEMM, panels, packed weights.
//
// The rows of a group of channels are its dst channels, in each the classes of the axes before the last, row-major, and
// in each of these the phases, the classes of the last axis: a group of the microkernel.
#pragma once

#include <cstdint>

#include "kernels/conv_transpose/plan.h"
#include "kernels/subpixel/kernel.h"
#include "kernels/subpixel/subpixel.h"

namespace ortconv::kernels::subpixel {

struct Plan {
  DataType dtype;                    // of src, weights, bias and dst
  size_t element_bytes, cell_bytes;  // of them; of a sum
  int64_t g, ic, oc;                 // channels per group of channels
  int64_t outer;                     // classes of the axes before the last
  int64_t phases;
  int64_t piece;  // products that are summed one after the other
  Panels panels;  // of the rows of a group of channels, in groups of the microkernel
  const Kernel* kernel;
  Buffer packed;  // empty when the weights are not constant

  Plan(const ConvProblem& static_part, DataType dtype, const Kernel* kernel);

  int64_t groups() const { return oc * outer; }  // of the microkernel, in one group of channels
  int64_t packed_size() const { return g * groups() * phases * ic; }
};

// Packs the weights of one panel, [src channel][row], into `packed`, the start of the array of all panels.
void pack_weights(const Plan& plan, const ConvProblem& static_part, const void* wei, int64_t group, int64_t panel,
                  void* packed);

}  // namespace ortconv::kernels::subpixel

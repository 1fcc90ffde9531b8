// What is known of a node before its inputs: rows of the GEMM, panels, packed weights.
//
// The rows of a group of channels are its dst channels, in each the classes of the axes before the last, row-major, and
// in each of these the phases, the classes of the last axis: a group of the microkernel.
#pragma once

#include <cstdint>

#include "base/buffer.h"
#include "kernels/conv/plan.h"
#include "kernels/depth_to_space/depth_to_space.h"
#include "kernels/depth_to_space/kernel.h"

namespace ortconv::kernels::depth_to_space {

struct Plan {
  DataType dtype;                    // of src, weights, bias and dst
  size_t element_bytes, cell_bytes;  // of them; of a sum or another operand
  int64_t g, ic, oc;                 // channels per group of channels
  const PairFunctions* pairs;        // null: the operands are sums
  int64_t depth;                     // operands of the channels of a group
  int64_t outer;                     // classes of the axes before the last
  int64_t phases;
  int64_t piece;  // products of operands that are summed one after the other
  Panels panels;  // of the rows of a group of channels, in groups of the microkernel
  const Kernel* kernel;
  Buffer packed;      // empty when the weights are not constant
  PlanPtr in_floats;  // of a plan of pairs: what it does with a src that they do not suit

  Plan(const ConvProblem& static_part, DataType dtype, const Kernel* kernel, const PairFunctions* pairs);

  int64_t groups() const { return oc * outer; }  // of the microkernel, in one group of channels
  int64_t packed_size() const { return g * groups() * phases * depth; }

  // Calls fn(T(), Operand()).
  template <class Fn>
  void with_types(Fn&& fn) const {
    if (pairs != nullptr) return fn(Bfloat16(), BfloatPair());
    with_float_type(dtype, [&](auto zero) { fn(zero, Sum<decltype(zero)>()); });
  }
};

// Packs the weights of one panel, [operand of src channels][row], into `packed`, the start of the array of all panels.
void pack_weights(const Plan& plan, const ConvProblem& static_part, const void* wei, int64_t group, int64_t panel,
                  void* packed);

}  // namespace ortconv::kernels::depth_to_space

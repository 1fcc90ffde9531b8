// The implicit GEMM of a convolution, see params/convolution.h: what depends on the weights and attributes alone.
#pragma once

#include <cstdint>
#include <optional>

#include "cuda/params/convolution.h"
#include "cuda/plan/plan.h"

namespace ortconv::cuda {

// The instructions that multiply: tensor cores, tensor cores in TF32, or fused multiply-adds.
enum class Unit { kTensor, kTf32, kFloat };

Unit unit_of(const Elements& elements, const Device& device, const Options& options);

// Bytes of an element of packed weights.
inline int64_t packed_element_bytes(const Elements& elements, Unit unit) {
  return unit == Unit::kTensor ? static_cast<int64_t>(size_of(elements.w)) : 4;
}

// Sizes of the GEMM.
struct Products {
  int64_t phases[kMaxSpatial];  // per axis
  bool uniform;
  int64_t lists, panels, shifts, chunks, steps;  // panels, shifts: of a list
  int64_t chunk_elements;
  int64_t row_sums;  // none, or one for each row
  double density;    // the part of the (phase, shift) pairs that have a tap

  int64_t row_sums_offset() const;
  int64_t weights_offset() const;
  int64_t packed_bytes(const ConvProblem& problem) const;

  // None where the sizes are not supported; the plan then falls back to direct convolution.
  static std::optional<Products> make(const Elements& elements, Unit unit, kernels::Op op, const ConvProblem& problem);
};

}  // namespace ortconv::cuda

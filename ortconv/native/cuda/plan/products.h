// A convolution as matrix products, see params.h: what of it the weights and attributes alone decide, and a run.
#pragma once

#include <cstdint>
#include <optional>

#include "cuda/params/convolution.h"
#include "cuda/plan/plan.h"

namespace ortconv::cuda {

// By which instructions the products are formed.
enum class Unit { kTensor, kTf32, kFloat };

Unit unit_of(const Elements& elements, const Device& device, const Options& options);

// Bytes of an element of packed weights.
inline int64_t packed_element_bytes(const Elements& elements, Unit unit) {
  return unit == Unit::kTensor ? static_cast<int64_t>(size_of(elements.w)) : 4;
}

// How rows, columns and sums come of a node's weights.
struct Products {
  int64_t phases[kMaxSpatial];  // of each axis
  bool uniform;
  int64_t lists, granules, shifts, chunks, steps;  // granules, shifts: of a list
  int64_t chunk_elements;
  int64_t row_sums;  // none, or one for each output channel
  double density;    // of the (phase, shift) pairs of the lists, those that have a tap

  int64_t row_sums_offset() const;
  int64_t weights_offset() const;
  int64_t packed_bytes(const ConvProblem& problem) const;

  // None where the sizes do not suit: then outputs are computed one by one.
  static std::optional<Products> make(const Elements& elements, Unit unit, kernels::Op op, const ConvProblem& problem);
};

}  // namespace ortconv::cuda

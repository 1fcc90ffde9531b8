// Plans of the Fourier operators on CUDA; see plan.h.
#pragma once

#include <cstdint>

#include "cuda/plan/fourier_tables.h"
#include "cuda/plan/plan.h"
#include "kernels/fourier/stft.h"

namespace ortconv::cuda {

// Transforms of an axis, [outer, size, inner, x_parts] to [outer, count, inner, y_parts], as kernels::FourierRows has
// them.
struct AxisTransform {
  int64_t outer, size, inner, x_parts, count, y_parts;
  bool is_inverse;
};

// Launches use X, Y, Tables, which are those of `steps`, and Scratch; with frames also Window and Gains, and Sines
// where the inverse transform `has_sines` as a tensor of their own.
Plan plan_transform(DataType dtype, const FourierSteps& steps, const AxisTransform& transform, const Device& device);
Plan plan_forward_stft(DataType dtype, const FourierSteps& steps, const kernels::StftProblem& problem,
                       const Device& device);
Plan plan_inverse_stft(DataType dtype, const FourierSteps& steps, const kernels::StftProblem& problem, bool has_sines,
                       const Device& device);

// Uses X, Window and Y.
Plan plan_overlap_add(DataType dtype, const kernels::StftProblem& problem, const Device& device);

}  // namespace ortconv::cuda

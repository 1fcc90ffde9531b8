// What keeps the memory of a run in proportion to its data.
#pragma once

#include <cstddef>

#include "base/problem.h"
#include "kernels/conv/conv.h"

namespace ortconv::implementations {

// Whether what the layouts of a run count, cells of copies of src with zeros around it, stays far below 2^63.
bool counts_fit(kernels::Op op, const ConvProblem& problem);

// Whether a window of every output has a position of src on every axis: if not, some outputs are the bias alone.
bool every_output_is_reached(kernels::Op op, const ConvProblem& problem);

// Whether so much scratch is in proportion to src, weights and dst, as numbers of `cell_bytes`.
bool is_in_proportion(size_t scratch_bytes, const ConvProblem& problem, size_t cell_bytes);

}  // namespace ortconv::implementations

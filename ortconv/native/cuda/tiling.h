// Into which tiles the products of a run are cut, and by which program they are formed.
#pragma once

#include <vector>

#include "cuda/plan.h"
#include "cuda/products.h"

namespace ortconv::cuda {

// How src is read: by chunks where the tensor has them, element by element, or by chunks of a copy made before.
enum class Source { kChunks, kElements, kGathered };

struct Tiling {
  Source source;
  int64_t granules, columns, splits;
  uint32_t threads;
  size_t shared_bytes;
  ProgramKey program, total_program;  // the second where there are splits
};

Tiling choose_tiling(DataType dtype, Unit unit, const ConvProblem& problem, const Products& products, int64_t positions,
                     const std::vector<Source>& sources, const Device& device);

}  // namespace ortconv::cuda

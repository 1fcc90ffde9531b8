// Tilings of the implicit GEMM, and the programs that compute them.
#pragma once

#include <vector>

#include "cuda/plan/plan.h"
#include "cuda/plan/products.h"

namespace ortconv::cuda {

// How src is read: in chunks directly from the tensor, element by element, or in chunks from a channels-last copy.
enum class Source { kChunks, kElements, kGathered };

// A block's tile: `panels` by `columns`, computed by `across` * `along` warps on tensor cores or threads otherwise.
// Registers and shared memory are limited so that `blocks` blocks fit on a multiprocessor.
struct TileShape {
  int panels, columns, across, along, blocks;
};

struct Tiling {
  Source source;
  const TileShape* shape;
  int stages;
  int64_t splits;
  uint32_t threads;
  size_t shared_bytes;
  double clocks;  // a rough estimate of the run time, for comparing tilings
};

std::vector<Tiling> possible_tilings(const Elements& elements, Unit unit, const ConvProblem& problem,
                                     const Products& products, int64_t positions, const std::vector<Source>& sources,
                                     const Device& device);

// The GEMM program, or with `total` the one that adds up its split-K sums.
ProgramKey program_of(const Elements& elements, Unit unit, const ConvProblem& problem, const Products& products,
                      const Tiling& tiling, bool total);

}  // namespace ortconv::cuda

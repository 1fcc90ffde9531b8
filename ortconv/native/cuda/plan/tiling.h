// Into which tiles the products of a run can be cut, and by which programs they are formed.
#pragma once

#include <vector>

#include "cuda/plan/plan.h"
#include "cuda/plan/products.h"

namespace ortconv::cuda {

// How src is read: by chunks where the tensor has them, element by element, or by chunks of a copy made before.
enum class Source { kChunks, kElements, kGathered };

// How a block forms the products of a tile: `across` rows and `along` columns count its warps where these are for the
// tensor cores, else its threads; `blocks` shall fit on a multiprocessor.
struct TileShape {
  int granules, columns, across, along, blocks;
};

struct Tiling {
  Source source;
  const TileShape* shape;
  int stages;
  int64_t splits;
  uint32_t threads;
  size_t shared_bytes;
  double clocks;  // that it takes, roughly: enough to tell a good one from a bad one
};

std::vector<Tiling> possible_tilings(const Elements& elements, Unit unit, const ConvProblem& problem,
                                     const Products& products, int64_t positions, const std::vector<Source>& sources,
                                     const Device& device);

// The program that forms the products, or the one that adds up what the splits of a sum have left.
ProgramKey program_of(const Elements& elements, Unit unit, const ConvProblem& problem, const Products& products,
                      const Tiling& tiling, bool total);

}  // namespace ortconv::cuda

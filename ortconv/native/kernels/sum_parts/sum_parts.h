// Adds parts of rows up to vectors of sums, by a list of where each part lies.
//
// A new kernel supplies a function in a file named after its ISA and one row in kernels.inc.
#pragma once

#include <cstdint>

#include "base/arch.h"

namespace ortconv::kernels {

constexpr int kSumLanes = 8;  // of a vector of sums

// Lanes [begin, end) of the vector at src + offset. What other lanes would have is not read.
struct SumPart {
  int32_t offset;
  uint8_t begin, end;
};

// The vector of sums at dst + offset: of the next `parts` parts.
struct SumVector {
  int32_t offset, parts;
};

// dst[vector.offset + i] = the sum of what its parts have in lane i, in their order; zero where none has any.
//
// That for every vector, in their order, and so `repeats` times: src and dst move on by a step each time. Each vector
// is written whole.
struct SumPartsArgs {
  const SumVector* vectors;
  int64_t num_vectors;
  const SumPart* parts;
  int64_t repeats;
  const float* src;
  int64_t src_step;
  float* dst;
  int64_t dst_step;
};

struct SumPartsKernel {
  const char* name;
  void (*run)(const SumPartsArgs&);
};

// The best kernel for these flags; the portable one when no other fits.
const SumPartsKernel& get_sum_parts_kernel(const ArchFlags& arch);

}  // namespace ortconv::kernels

// Where the way tap by tap computes what: blocks of dst channels, the src positions that a tap takes into dst, scratch
// layout.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/math.h"
#include "kernels/conv/geometry.h"

namespace ortconv::kernels::tapwise {

// Dst channels of a block: two vectors of AVX-512, which it sums for 14 positions at a time. What 256 channels have of
// a tap's weights then stays in L1 for all positions.
constexpr int64_t kBlockColumns = 32;

// Calls fn(T(), Operand()) with the types of an element and of the operands of its products.
template <class Fn>
void with_types(const Plan& plan, Fn&& fn) {
  if (plan.in_pairs()) return fn(Bfloat16(), BfloatPair());
  with_float_type(plan.dtype, [&](auto zero) { fn(zero, Sum<decltype(zero)>()); });
}

// Operands of so many src channels.
inline int64_t depth_of(const Plan& plan, int64_t channels) {
  return plan.in_pairs() ? kernels::depth_of<BfloatPair>(channels) : channels;
}

// Blocks of the columns of a group: dst channels, as many as make whole vectors.
struct Blocks {
  int64_t vectors, count;
  explicit Blocks(const Plan& plan)
      : vectors(ceil_div(plan.oc, kGemmColumns)), count(ceil_div(vectors * kGemmColumns, kBlockColumns)) {}
  int64_t columns() const { return vectors * kGemmColumns; }
  int64_t begin(int64_t block) const { return even_begin(vectors, block, count, 1) * kGemmColumns; }
  // Of a vector, the one with which its block begins.
  int64_t start_of(int64_t vector) const {
    int64_t block = vector * count / vectors;
    while (begin(block + 1) <= vector * kGemmColumns) ++block;
    return begin(block) / kGemmColumns;
  }
};

// What tap k of an axis does: position j of its class is src position j - shift, for those in [begin, end).
struct Reach {
  int64_t cls, shift, begin, end;

  Reach() = default;
  Reach(const ConvProblem& p, int64_t a, int64_t k) {
    const int64_t stride = p.stride[a], at = k * p.dilation[a] - p.pad[a];  // dst position of src position 0
    cls = k * p.dilation[a] % stride;
    shift = floor_div(at, stride);
    begin = std::clamp<int64_t>(ceil_div(-at, stride), 0, p.src_size[a]);
    end = std::clamp<int64_t>(floor_div(p.dst_size[a] - 1 - at, stride) + 1, begin, p.src_size[a]);
  }
};

struct Layout {
  Geometry geometry;   // its grid is the positions, end to end
  int64_t depth;       // operands of the channels of a group
  int64_t positions;   // of src, of one image
  int64_t sums;        // positions of a class, of one image
  int64_t num_blocks;  // of images
  int64_t images;      // of a block
  bool along_batch;
  // Byte offsets into the scratch: phases, widened bias, what is known of the magnitude of src, src as the A operand,
  // then one slice per thread.
  size_t phases, bias, largest, src, slices, slice_size;
  // Inside a slice, which begins with the sums.
  size_t slice_tile, slice_rows, slice_segments;

  Layout(const Plan& plan, const ConvProblem& problem, int threads);
};

}  // namespace ortconv::kernels::tapwise

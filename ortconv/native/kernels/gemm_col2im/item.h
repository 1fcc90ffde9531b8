// The work items of a run, and the driver's view of their stages.
#pragma once

#include <vector>

#include "base/ranges.h"
#include "kernels/expand/steps.h"
#include "kernels/gemm_col2im/geometry.h"
#include "kernels/im2col/product.h"

namespace ortconv::kernels::gemm_col2im {

// An image, some dst channels of a group, and a slab of j of the first axis.
struct Part {
  int64_t image, group, channel, channels;
  int64_t j_begin, j_count;
  int64_t x_begin, x_count;  // positions of the first axis that reach the slab
};

// Positions of dst of a part.
inline int64_t dst_length(const Geometry& geo, const Part& part, int a) {
  const Axis& axis = geo.axis[a];
  return a > 0 ? axis.dst_size : axis.dst_of(part.j_begin + part.j_count) - axis.dst_of(part.j_begin);
}

struct Held;
struct TileLists;

// What the products read: src, which may have been widened, and packed weights. lists: of the only tile, if it is
// listed before the run.
template <class In>
struct Operands {
  const Plan& plan;
  const ConvProblem& problem;
  const Geometry& geometry;
  const im2col::Kernels<In> kernels;
  const In* src;
  const void* packed;  // weights
  const void* bias;    // of dst's type, or null
  void* dst;
  const TileLists* lists;
};

// What is written, and how; bias may be null.
template <class T>
struct Results {
  const Plan& plan;
  const ConvProblem& problem;
  const Geometry& geometry;
  const im2col::Kernels<T> kernels;
  const T* bias;
  T* dst;
};

// Where in a slice of the scratch something lies.
template <class X>
X* at(char* slice, size_t offset) {
  return reinterpret_cast<X*>(slice + offset);
}

Part part_of(const Plan& plan, const Geometry& geometry, int64_t item);

// Adds the products of a part to its sums, or writes them.
template <class In>
void add_products(const Operands<In>& operands, const Part& part, char* slice, Held* held);

// Of a part whose tiles threads share: the slice that has its sums, and the products of all tiles.
struct SharedPart {
  char *slice, *products;
};

// How many ranges of tiles there are.
int64_t num_shared_ranges(const Plan& plan, const Geometry& geometry, const Part& part);
// Multiplies the ranges of tiles that it takes.
template <class In>
void multiply_shared(const Operands<In>& operands, const Part& part, const SharedPart& shared, char* slice,
                     Ranges* ranges);
// Adds all products, in the order in which add_products() does.
template <class In>
void add_shared(const Operands<In>& operands, const Part& part, const SharedPart& shared);

// Writes the sums of a part to dst, with bias and activation; in steps, unless these are null.
template <class T>
void store_sums(const Results<T>& results, const Part& part, char* slice, const std::vector<ExpandPart>* steps);

}  // namespace ortconv::kernels::gemm_col2im

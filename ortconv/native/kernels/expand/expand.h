// Writes a row whose numbers are runs of sums, in order, with gaps between them.
//
// A new kernel supplies a function template for every T of ExpandKernel, instantiated in a file named after its ISA,
// and one row in kernels.inc.
#pragma once

#include <cstdint>
#include <tuple>

#include "base/arch.h"
#include "kernels/element.h"

namespace ortconv::kernels {

constexpr int64_t kExpandWidth = 16;  // numbers of dst that a step is about

// Sums that are next to each other go to the numbers of `mask`, in order. A mask of zero stands for `src` times
// kExpandWidth numbers in the gap.
struct ExpandStep {
  int32_t src;    // of the first sum
  uint16_t mask;  // of kExpandWidth numbers of dst, the lowest bit first
  bool last;      // what follows is about the next numbers
};

// dst[i] = the sum that the steps have for it, plus bias, or gap where they have none, rounded to T   for 0 <= i <
// size.
//
// The steps cover dst without holes; what they have for numbers beyond its end is not written. kExpandWidth sums are
// readable from the first of each step on, up to the row in which dst ends.
template <class T>
struct ExpandArgs {
  const Sum<T>* src;
  const ExpandStep* steps;
  int64_t num_steps;
  Sum<T> bias, gap;
  T* dst;
  int64_t size;
};
template <class T>
using ExpandFn = void (*)(const ExpandArgs<T>&);

struct ExpandKernel {
  const char* name;
  std::tuple<ExpandFn<float>, ExpandFn<double>, ExpandFn<Float16>, ExpandFn<Bfloat16>> functions;

  template <class T>
  ExpandFn<T> to() const {
    return std::get<ExpandFn<T>>(functions);
  }
};

// The best kernel for these flags; the portable one when no other fits.
const ExpandKernel& get_expand_kernel(const ArchFlags& arch);

}  // namespace ortconv::kernels

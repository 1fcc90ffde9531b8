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

constexpr int64_t kExpandWidth = 16;  // numbers of a row

// What a step does:
//   kMore, kLast: sums that are next to each other, from `src` on, go to the numbers of a row that `mask` has, the
//   lowest
//     bit first, in order. What follows is about the same row, or about the next one.
//   kFill: so many rows as `src` says are in the gap.
//   kSingle: a sum goes to the number `mask`, counted from where the last kFill began.
struct ExpandStep {
  enum Kind : uint8_t { kMore, kLast, kFill, kSingle };

  int32_t src;
  uint16_t mask;
  Kind kind;
};

// dst[i] = the sum that the steps have for it, plus bias, or gap where they have none, rounded to T   for 0 <= i <
// size.
//
// The steps cover dst without holes, row after row; what they have for numbers beyond its end is not written. From the
// first sum of a step on kExpandWidth are readable, up to the row in which dst ends.
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

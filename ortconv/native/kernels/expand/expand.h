// Writes rows of numbers from runs of sums, with gaps between them.
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

// kMore and kLast: sums that are next to each other, from `src` on, go to the numbers of a row that `mask` has, lowest
// bit first. After kMore the next step is about the same row, after kLast about the next one.
// kFill: `src` rows get the gap's value.
// kSingle: the sum `src` goes to the number `mask`, counted from where the last kFill began.
struct ExpandStep {
  enum Kind : uint8_t { kMore, kLast, kFill, kSingle };

  int32_t src;
  uint16_t mask;
  Kind kind;
};

// Writes dst[0, size): each number is the sum that a step has for it, plus bias, or else gap, rounded to T.
//
// The steps have all rows, one after the other; what they have beyond the end of dst is not written. From the first sum
// of a step on kExpandWidth are readable, up to the row in which dst ends.
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

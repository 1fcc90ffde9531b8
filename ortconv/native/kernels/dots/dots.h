// Sums of products of numbers that lie next to each other, as they lie.
//
// A new kernel supplies a function template for every T of DotsKernel, instantiated in a file named after its ISA, and
// one row in kernels.inc.
#pragma once

#include <cstdint>
#include <tuple>

#include "base/arch.h"

namespace ortconv::kernels {

// out[row] = sum over k of a[k] * b[row * pitch + k]   for 0 <= k < count, 0 <= row < rows.
//
// A sum is that of many sums of a few products each, the same ones whatever rows is.
// next: read soon, as much as of `a`.
template <class T>
struct DotsArgs {
  const T *a, *b;
  int64_t pitch, count, rows;
  T* out;
  const T* next;
};
template <class T>
using DotsFn = void (*)(const DotsArgs<T>&);

struct DotsKernel {
  const char* name;
  std::tuple<DotsFn<float>, DotsFn<double>> functions;

  template <class T>
  DotsFn<T> to() const {
    return std::get<DotsFn<T>>(functions);
  }
};

// The best kernel for these flags; the portable one when no other fits.
const DotsKernel& get_dots_kernel(const ArchFlags& arch);

}  // namespace ortconv::kernels

// Interleaves the output phases of one row into contiguous memory, adds the bias and rounds to the element type.
//
// A new kernel supplies a function template for every T of InterleaveKernel, instantiated in a file named after its
// ISA, and one row in kernels.inc.
#pragma once

#include <cstdint>
#include <tuple>

#include "base/arch.h"
#include "kernels/element.h"

namespace ortconv::kernels {

// dst[i * phases + p] = src[p][i] + bias   for 0 <= i < n, 0 <= p < phases.
//
// kStream hints that the destination is too large to stay in the caches, so a kernel may write past them. A thread that
// did so must call `fence` before others read what it wrote.
enum class Store { kCached, kStream };
template <class T>
using InterleaveFn = void (*)(const Sum<T>* const* src, int64_t phases, int64_t n, Sum<T> bias, T* dst, Store store);

struct InterleaveKernel {
  const char* name;
  std::tuple<InterleaveFn<float>, InterleaveFn<double>, InterleaveFn<Float16>, InterleaveFn<Bfloat16>> functions;
  void (*fence)();

  template <class T>
  InterleaveFn<T> to() const {
    return std::get<InterleaveFn<T>>(functions);
  }
};

// The best kernel for these flags; the portable one when no other fits.
const InterleaveKernel& get_interleave_kernel(const ArchFlags& arch);

}  // namespace ortconv::kernels

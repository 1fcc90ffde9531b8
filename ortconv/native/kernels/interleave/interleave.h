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

// kStream hints that the destination is too large to stay in the caches, so a kernel may write past them. A thread that
// did so must call `fence` before others read what it wrote.
enum class Store { kCached, kStream };

// dst[c * dst_stride + i * phases + p] = src[p][c * src_stride + i] + bias[c * bias_step], rounded to T
//     for 0 <= c < channels, 0 <= i < n, 0 <= p < phases.
template <class T>
struct InterleaveArgs {
  const Sum<T>* const* src;
  int64_t src_stride;
  int64_t channels, n, phases;
  const Sum<T>* bias;  // null: none
  T* dst;
  int64_t dst_stride;
  Store store;
  int64_t bias_step = 1;

  // What to add to a channel: without a bias what changes nothing, zeros included.
  Sum<T> bias_of(int64_t channel) const { return bias == nullptr ? -Sum<T>() : bias[channel * bias_step]; }

  // Channels that lie one after the other, and have no bias, as a single one: short rows leave vectors empty.
  InterleaveArgs joined() const {
    InterleaveArgs args = *this;
    if (bias == nullptr && phases == 1 && src_stride == n && dst_stride == n) args.n *= channels, args.channels = 1;
    return args;
  }
};
template <class T>
using InterleaveFn = void (*)(const InterleaveArgs<T>&);

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

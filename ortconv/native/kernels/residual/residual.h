// Adds a residual to a result, and activates the sums.
//
// A new kernel supplies a function template for every T of ResidualKernel, instantiated in a file named after its ISA,
// and one row in kernels.inc.
#pragma once

#include <cstdint>
#include <tuple>

#include "base/activation.h"
#include "base/arch.h"
#include "kernels/element.h"

namespace ortconv::kernels {

// dst[i] = activation(dst[i] + residual[i], rounded to T), rounded to T   for 0 <= i < n. Without activation (null, and
// always so for double) the sum is rounded and that is all. Reads and writes nothing else; no alignment is needed.
template <class T>
using ResidualFn = void (*)(const Activation* activation, int64_t n, const T* residual, T* dst);

struct ResidualKernel {
  const char* name;
  std::tuple<ResidualFn<float>, ResidualFn<double>, ResidualFn<Float16>, ResidualFn<Bfloat16>> functions;

  template <class T>
  ResidualFn<T> to() const {
    return std::get<ResidualFn<T>>(functions);
  }
};

// The best kernel for these flags; the portable one when no other fits.
const ResidualKernel& get_residual_kernel(const ArchFlags& arch);

}  // namespace ortconv::kernels

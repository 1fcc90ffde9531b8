// What happens to the sums of a result before they are stored for good: activation, and the addition of a residual.
//
// A new kernel supplies both function templates for every T of EpilogueKernel, instantiated in a file named after its
// ISA, and one row in kernels.inc.
#pragma once

#include <cstdint>
#include <tuple>

#include "base/activation.h"
#include "base/arch.h"
#include "kernels/element.h"

namespace ortconv::kernels {

// sums[i] = activation(sums[i] + bias, rounded to T)   for 0 <= i < n. Reads and writes nothing else.
template <class T>
using ActivateFn = void (*)(const Activation& activation, float bias, int64_t n, float* sums, T);

// dst[i] = activation(dst[i] + residual[i], rounded to T), rounded to T   for 0 <= i < n. Without activation (null, and
// always so for double) the sum is rounded and that is all. Reads and writes nothing else; no alignment is needed.
template <class T>
using ResidualFn = void (*)(const Activation* activation, int64_t n, const T* residual, T* dst);

struct EpilogueKernel {
  const char* name;
  std::tuple<ActivateFn<float>, ActivateFn<Float16>, ActivateFn<Bfloat16>> activate;
  std::tuple<ResidualFn<float>, ResidualFn<double>, ResidualFn<Float16>, ResidualFn<Bfloat16>> residual;

  template <class T>
  void run(const Activation& activation, float bias, int64_t n, float* sums) const {
    std::get<ActivateFn<T>>(activate)(activation, bias, n, sums, T());
  }

  template <class T>
  void add_residual(const Activation* activation, int64_t n, const T* addend, T* dst) const {
    std::get<ResidualFn<T>>(residual)(activation, n, addend, dst);
  }
};

// The best kernel for these flags; the portable one when no other fits.
const EpilogueKernel& get_epilogue_kernel(const ArchFlags& arch);

}  // namespace ortconv::kernels

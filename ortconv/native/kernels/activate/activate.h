// The activation of a result, on sums that are still in a cache.
//
// A new kernel supplies a function template for every T of ActivateKernel, instantiated in a file named after its ISA,
// and one row in kernels.inc.
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

struct ActivateKernel {
  const char* name;
  std::tuple<ActivateFn<float>, ActivateFn<Float16>, ActivateFn<Bfloat16>> functions;

  template <class T>
  void run(const Activation& activation, float bias, int64_t n, float* sums) const {
    std::get<ActivateFn<T>>(functions)(activation, bias, n, sums, T());
  }
};

// The best kernel for these flags; the portable one when no other fits.
const ActivateKernel& get_activate_kernel(const ArchFlags& arch);

}  // namespace ortconv::kernels

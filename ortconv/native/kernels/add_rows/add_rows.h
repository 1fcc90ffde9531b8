// Adds rows of numbers to others.
//
// A new kernel supplies a function template for every T of AddRowsKernel, instantiated in a file named after its ISA,
// and one row in kernels.inc.
#pragma once

#include <cstdint>
#include <tuple>

#include "base/arch.h"

namespace ortconv::kernels {

// dst[row * dst_step + i] += src[row * src_step + i]   for 0 <= row < rows, 0 <= i < length. Reads and writes nothing
// else. The rows of dst have nothing in common.
template <class T>
struct AddRowsArgs {
  int64_t rows, length;
  const T* src;
  int64_t src_step;
  T* dst;
  int64_t dst_step;
};
template <class T>
using AddRowsFn = void (*)(const AddRowsArgs<T>&);

struct AddRowsKernel {
  const char* name;
  std::tuple<AddRowsFn<float>, AddRowsFn<double>> functions;

  template <class T>
  void run(const AddRowsArgs<T>& args) const {
    std::get<AddRowsFn<T>>(functions)(args);
  }
};

// The best kernel for these flags; the portable one when no other fits.
const AddRowsKernel& get_add_rows_kernel(const ArchFlags& arch);

}  // namespace ortconv::kernels

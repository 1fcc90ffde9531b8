// Turns rows of positions into rows of channels, and back: the step between NCX buffers and NXC tensors.
//
// A new kernel supplies a function template for every T of TransposeKernel, instantiated in a file named after its ISA,
// and one row in kernels.inc.
#pragma once

#include <cstdint>
#include <tuple>

#include "base/arch.h"
#include "kernels/element.h"

namespace ortconv::kernels {

// dst[j * dst_stride + i] = src[i * src_stride + j] + bias[i], rounded to T   for 0 <= i < rows, 0 <= j < cols.
//
// Without bias (null) and where T is the type of src the bits are copied, whatever they mean. Reads and writes nothing
// else; no alignment is needed.
template <class T>
using TransposeFn = void (*)(const Sum<T>* src, int64_t src_stride, int64_t rows, int64_t cols, const Sum<T>* bias,
                             T* dst, int64_t dst_stride);

struct TransposeKernel {
  const char* name;
  std::tuple<TransposeFn<float>, TransposeFn<double>, TransposeFn<Float16>, TransposeFn<Bfloat16>> functions;

  template <class T>
  TransposeFn<T> to() const {
    return std::get<TransposeFn<T>>(functions);
  }
};

// The best kernel for these flags; the portable one when no other fits.
const TransposeKernel& get_transpose_kernel(const ArchFlags& arch);

}  // namespace ortconv::kernels

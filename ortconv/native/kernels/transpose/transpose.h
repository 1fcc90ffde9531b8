// Turns rows of positions into rows of channels, and back: the step between NCX buffers and NXC tensors.
//
// A new kernel supplies two function templates for every T of TransposeKernel, instantiated in a file named after its
// ISA, and one row in kernels.inc.
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

// dst[j * dst_stride + i] = src[i * src_stride + j]   for 0 <= i < rows, 0 <= j < cols. The same rules hold.
template <class T>
using TransposeFromFn = void (*)(const T* src, int64_t src_stride, int64_t rows, int64_t cols, Sum<T>* dst,
                                 int64_t dst_stride);

struct TransposeKernel {
  const char* name;
  std::tuple<TransposeFn<float>, TransposeFn<double>, TransposeFn<Float16>, TransposeFn<Bfloat16>> functions;
  std::tuple<TransposeFromFn<float>, TransposeFromFn<double>, TransposeFromFn<Float16>, TransposeFromFn<Bfloat16>>
      from_functions;

  template <class T>
  TransposeFn<T> to() const {
    return std::get<TransposeFn<T>>(functions);
  }
  template <class T>
  TransposeFromFn<T> from() const {
    return std::get<TransposeFromFn<T>>(from_functions);
  }
};

// The best kernel for these flags; the portable one when no other fits.
const TransposeKernel& get_transpose_kernel(const ArchFlags& arch);

}  // namespace ortconv::kernels

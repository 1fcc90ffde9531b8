// The walk over whole square tiles that the kernels for short vectors share; what they do not cover is left to the
// portable kernel.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "kernels/element.h"

namespace ortconv::kernels {

template <class T>
void transpose_generic(const Sum<T>* src, int64_t src_stride, int64_t rows, int64_t cols, const Sum<T>* bias, T* dst,
                       int64_t dst_stride);

// The arguments of TransposeFn, and tile(src, src_stride, bias, dst, dst_stride) for kLanes rows by kLanes columns of
// float sums. In a namespace without a name, as each file compiles it for its own instruction set.
namespace {

template <int64_t kLanes, class T, class Tile>
void transpose_by_tiles(const Sum<T>* src, int64_t src_stride, int64_t rows, int64_t cols, const Sum<T>* bias, T* dst,
                        int64_t dst_stride, const Tile& tile) {
  const int64_t whole_cols = cols / kLanes * kLanes;
  for (int64_t i = 0; i < rows; i += kLanes) {
    const int64_t count = std::min(kLanes, rows - i);
    const Sum<T>* in = src + i * src_stride;
    const Sum<T>* add = bias == nullptr ? nullptr : bias + i;
    int64_t j = 0;
    if constexpr (!std::is_same_v<T, double>) {
      for (; count == kLanes && j < whole_cols; j += kLanes) {
        tile(in + j, src_stride, add, dst + j * dst_stride + i, dst_stride);
      }
    }
    transpose_generic(in + j, src_stride, count, cols - j, add, dst + j * dst_stride + i, dst_stride);
  }
}

}  // namespace

}  // namespace ortconv::kernels

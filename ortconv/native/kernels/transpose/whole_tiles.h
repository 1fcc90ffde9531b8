// The walk over square tiles that the kernels for short vectors share. What has fewer rows or columns than a tile is
// left to the portable kernel.
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
  if constexpr (!std::is_same_v<T, double>) {
    if (rows >= kLanes && cols >= kLanes) {
      // The last tiles of rows and columns begin earlier, and write again what others have.
      for (int64_t i = 0; i < rows; i += kLanes) {
        const int64_t row = std::min(i, rows - kLanes);
        for (int64_t j = 0; j < cols; j += kLanes) {
          const int64_t col = std::min(j, cols - kLanes);
          tile(src + row * src_stride + col, src_stride, bias == nullptr ? nullptr : bias + row,
               dst + col * dst_stride + row, dst_stride);
        }
      }
      return;
    }
  }
  // Some rows at a time, whose elements are written next to each other.
  for (int64_t i = 0; i < rows; i += kLanes) {
    transpose_generic(src + i * src_stride, src_stride, std::min(kLanes, rows - i), cols,
                      bias == nullptr ? nullptr : bias + i, dst + i, dst_stride);
  }
}

}  // namespace

}  // namespace ortconv::kernels

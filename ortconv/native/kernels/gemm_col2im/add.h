// Adding short segments of products to their sums, by functions for each length.
#pragma once

#include <array>
#include <cstddef>
#include <utility>

#include "kernels/gemm_col2im/geometry.h"

namespace ortconv::kernels::gemm_col2im {

// Adds to each of the segments, which have kLength positions.
template <int kLength, class Cell>
void add_short(const Cell* in, const Segment* begin, const Segment* end, Cell* out) {
  for (const Segment* s = begin; s != end; ++s) {
    const Cell* from = in + s->column;
    Cell* to = out + s->offset;
    Cell sums[kLength + 1];  // so that the compiler need not know that these are others
    for (int i = 0; i < kLength; ++i) sums[i] = to[i] + from[i];
    for (int i = 0; i < kLength; ++i) to[i] = sums[i];
  }
}

template <class Cell, int... kLengths>
constexpr auto add_functions(std::integer_sequence<int, kLengths...>) {
  using Add = void (*)(const Cell*, const Segment*, const Segment*, Cell*);
  return std::array<Add, sizeof...(kLengths)>{add_short<kLengths, Cell>...};
}
constexpr int kShort = 32;  // positions of a segment
template <class Cell>
constexpr auto kAddShort = add_functions<Cell>(std::make_integer_sequence<int, kShort + 1>());

}  // namespace ortconv::kernels::gemm_col2im

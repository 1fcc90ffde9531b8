// Adding short segments of products to their sums, by functions for each length.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <utility>

#include "kernels/gemm_col2im/geometry.h"
#include "kernels/unroll.h"

namespace ortconv::kernels::gemm_col2im {

// Some numbers of 16 bytes, which may begin anywhere.
template <class Cell>
struct Vector {
  static constexpr int kLanes = 16 / sizeof(Cell);
#if defined(__GNUC__)
  using Lanes __attribute__((vector_size(16))) = Cell;
  Lanes lanes;
#else
  Cell lanes[kLanes];
#endif

  static Vector sum(const Cell* a, const Cell* b) {
    Vector x, y;
    std::memcpy(&x, a, sizeof(Vector));
    std::memcpy(&y, b, sizeof(Vector));
#if defined(__GNUC__)
    x.lanes += y.lanes;
#else
    for (int i = 0; i < kLanes; ++i) x.lanes[i] += y.lanes[i];
#endif
    return x;
  }
  void store(Cell* to) const { std::memcpy(to, this, sizeof(Vector)); }
};

// Adds to each of the segments, which have kLength positions. All is read before anything is written. The last vector
// begins earlier where it would go beyond the segment: what is read across parts of several stores waits for all.
template <int kLength, class Cell>
void add_short(const Cell* in, const Segment* begin, const Segment* end, Cell* out) {
  constexpr int kLanes = Vector<Cell>::kLanes, kVectors = (kLength + kLanes - 1) / kLanes;
  for (const Segment* s = begin; s != end; ++s) {
    const Cell* from = in + s->column;
    Cell* to = out + s->offset;
    if constexpr (kLength < kLanes) {
      Cell sums[kLength + 1];
      for (int i = 0; i < kLength; ++i) sums[i] = to[i] + from[i];
      for (int i = 0; i < kLength; ++i) to[i] = sums[i];
    } else {
      Vector<Cell> sums[kVectors];
      ORTCONV_UNROLL
      for (int v = 0; v < kVectors; ++v) {
        const int at = std::min(v * kLanes, kLength - kLanes);
        sums[v] = Vector<Cell>::sum(to + at, from + at);
      }
      ORTCONV_UNROLL
      for (int v = 0; v < kVectors; ++v) sums[v].store(to + std::min(v * kLanes, kLength - kLanes));
    }
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

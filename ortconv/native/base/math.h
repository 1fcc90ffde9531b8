// Integer arithmetic.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace ortconv {

// The quotient rounded down, for b > 0.
constexpr int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b < 0); }

// The quotient rounded up, for b > 0.
constexpr int64_t ceil_div(int64_t a, int64_t b) { return a / b + (a % b > 0); }

// The smallest multiple of `multiple` that is at least n.
constexpr int64_t align_up(int64_t n, int64_t multiple) { return ceil_div(n, multiple) * multiple; }

// Where range i begins when n things are cut into `count` ranges of nearly equal size, all but the last multiples of
// granule.
constexpr int64_t even_begin(int64_t n, int64_t i, int64_t count, int64_t granule) {
  const int64_t begin = n * i / count;
  return granule == 1 ? begin : std::min(n, align_up(begin, granule));
}

// Bytes, rounded up to whole cache lines.
constexpr size_t align64(size_t bytes) { return (bytes + 63) & ~size_t{63}; }

// The product of `count` sizes; 1 for none.
constexpr int64_t product_of(const int64_t* sizes, int count) {
  int64_t product = 1;
  for (int i = 0; i < count; ++i) product *= sizes[i];
  return product;
}

// The offset in memory of element `index`, counted in row-major order, of an array with these sizes and strides.
constexpr int64_t offset_of(int64_t index, const int64_t* sizes, const int64_t* strides, int ndims) {
  int64_t offset = 0;
  for (int a = ndims - 1; a >= 0; --a) {
    offset += index % sizes[a] * strides[a];
    index /= sizes[a];
  }
  return offset;
}

}  // namespace ortconv

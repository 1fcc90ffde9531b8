// Sums of products of numbers that lie next to each other, as they lie.
#pragma once

#include <cstdint>

namespace ortconv::kernels::im2col {

// out[column] = sum over k of a[k] * b[column * pitch + k]: the sum of kLanes sums, of every kLanes-th product each. As
// much is asked for of `next`, which is read next.
template <int kColumns, class Cell>
void dots(const Cell* a, [[maybe_unused]] const Cell* next, const Cell* b, int64_t pitch, int64_t count, Cell* out) {
  constexpr int64_t kLanes = 8;
  Cell sums[kColumns][kLanes] = {};
  const int64_t whole = count / kLanes * kLanes;
  for (int64_t k = 0; k < whole; k += kLanes) {
#if defined(__GNUC__)
    __builtin_prefetch(next + k);
#endif
    for (int c = 0; c < kColumns; ++c) {
      for (int64_t i = 0; i < kLanes; ++i) sums[c][i] += a[k + i] * b[c * pitch + k + i];
    }
  }
  for (int c = 0; c < kColumns; ++c) {
    for (int64_t k = whole; k < count; ++k) sums[c][k - whole] += a[k] * b[c * pitch + k];
    for (int64_t half = kLanes / 2; half > 0; half /= 2) {
      for (int64_t i = 0; i < half; ++i) sums[c][i] += sums[c][i + half];
    }
    out[c] = sums[c][0];
  }
}

}  // namespace ortconv::kernels::im2col

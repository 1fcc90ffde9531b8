// Minimal filtering of one axis: F(m, r) computes m neighbouring outputs of an r-tap correlation with m + r - 1
// products instead of m * r.
//
//   y = A' [ (G g) * (B' d) ]     d: window of m + r - 1 inputs, g: r taps, y: m outputs
//
// The points are 0, 1, -1 and infinity (0, 1 and infinity for F(2, 2)): every coefficient is 0, +-1 or +-1/2, and the
// error grows by no more than 5/3 (in variance, per axis; 2 for F(2, 2)). More points save more and lose too many
// digits.
#pragma once

#include <cstdint>

namespace ortconv::kernels::winograd {

enum class Filter {
  kCopy,  // one tap: m outputs from m products
  k22,
  k32,
  k23,
};

constexpr int64_t kMaxPoints = 4, kMaxTaps = 3;
constexpr int64_t kMaxStep = 3;

// Products of one window of m outputs.
constexpr int64_t points_of(Filter filter, int64_t step) {
  return filter == Filter::kCopy ? step : filter == Filter::k22 ? 3 : 4;
}

// Different weights among them: those of kCopy are all the same.
constexpr int64_t weights_of(Filter filter) { return filter == Filter::kCopy ? 1 : points_of(filter, 0); }

// G g.
void transform_taps(Filter filter, const double* taps, double* out);

}  // namespace ortconv::kernels::winograd

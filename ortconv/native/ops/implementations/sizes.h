// Sizes of a problem as floating-point numbers, since some exceed int64.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "base/math.h"
#include "base/problem.h"

namespace ortconv::implementations {

// A call of the GEMM with fewer rows than this takes as long as one with so many: it waits for its sums.
constexpr int64_t kLeastRows = 4;

inline double product(const int64_t* sizes, int count) {
  double all = 1;
  for (int a = 0; a < count; ++a) all *= static_cast<double>(sizes[a]);
  return all;
}
inline double src_positions(const ConvProblem& p) { return static_cast<double>(p.mb) * product(p.src_size, p.ndims); }
inline double dst_positions(const ConvProblem& p) { return static_cast<double>(p.mb) * product(p.dst_size, p.ndims); }
inline double src_count(const ConvProblem& p) { return static_cast<double>(p.ic) * src_positions(p); }
inline double dst_count(const ConvProblem& p) { return static_cast<double>(p.oc) * dst_positions(p); }
inline double taps_of(const ConvProblem& p) { return product(p.ker, p.ndims); }
inline double weight_count(const ConvProblem& p) {
  return static_cast<double>(p.ic) * static_cast<double>(p.oc) / static_cast<double>(p.g) * taps_of(p);
}
// Rows of dst along its last axis, of one channel.
inline double dst_rows(const ConvProblem& p) { return static_cast<double>(p.mb) * product(p.dst_size, p.ndims - 1); }
inline double src_rows(const ConvProblem& p) { return static_cast<double>(p.mb) * product(p.src_size, p.ndims - 1); }

// The positions of src, along an axis of a transposed convolution, with a tap that lands in dst.
inline double reaching_positions(const ConvProblem& p, int a) {
  const int64_t reach = (p.ker[a] - 1) * p.dilation[a];
  const int64_t begin = std::max<int64_t>(0, ceil_div(p.pad[a] - reach, p.stride[a]));
  const int64_t end = std::min(p.src_size[a], floor_div(p.dst_size[a] - 1 + p.pad[a], p.stride[a]) + 1);
  return static_cast<double>(std::max<int64_t>(0, end - begin));
}

// The positions of src on an axis from which a tap lands in dst.
inline int64_t landing_positions(const ConvProblem& p, int axis, int64_t tap) {
  const int64_t first = tap * p.dilation[axis] - p.pad[axis];  // where it lands from the first position
  const int64_t begin = std::max<int64_t>(0, ceil_div(-first, p.stride[axis]));
  const int64_t end = std::min(p.src_size[axis], ceil_div(p.dst_size[axis] - first, p.stride[axis]));
  return std::max<int64_t>(0, end - begin);
}

// The taps on an axis that land in dst from some position of src.
inline int64_t landing_taps(const ConvProblem& p, int axis) {
  int64_t count = 0;
  for (int64_t k = 0; k < p.ker[axis]; ++k) count += landing_positions(p, axis, k) > 0 ? 1 : 0;
  return count;
}

// Their share of all axes.
inline double landing_taps(const ConvProblem& p) {
  double share = 1;
  for (int a = 0; a < p.ndims; ++a) share *= static_cast<double>(landing_taps(p, a)) / static_cast<double>(p.ker[a]);
  return share;
}

// The pairs of a position of src and a tap on an axis that land in dst.
inline double landing_pairs(const ConvProblem& p, int axis) {
  double count = 0;
  for (int64_t k = 0; k < p.ker[axis]; ++k) count += static_cast<double>(landing_positions(p, axis, k));
  return count;
}

// The share of the pairs of all axes that do.
inline double landing_pairs(const ConvProblem& p) {
  double share = 1;
  for (int a = 0; a < p.ndims; ++a) {
    share *= landing_pairs(p, a) / static_cast<double>(std::max<int64_t>(1, p.src_size[a] * p.ker[a]));
  }
  return share;
}

inline double rounded_up(double count, double granule) { return std::ceil(count / granule) * granule; }

// Bytes beyond those that stay in L2, when so many are read in each of so many passes. Those that a core's share of the
// last cache has no room for take longer.
inline double far_bytes(double bytes, double passes = 1) {
  constexpr double kNear = 256 << 10, kShare = 4 << 20, kFromMemory = 3;
  if (bytes <= kNear) return 0;
  return (bytes + (kFromMemory - 1) * std::max(0.0, bytes - kShare)) * passes;
}

// Products of a single position, whose weights are fetched while others are multiplied: those that take longer than
// fetching so many bytes.
inline double products_beside(double far_weights, double products) {
  constexpr double kOfByte = 0.8;
  return std::max(0.0, products - kOfByte * far_weights);
}

}  // namespace ortconv::implementations

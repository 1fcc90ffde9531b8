// Filling what no tap reaches.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "base/problem.h"
#include "kernels/past_caches.h"

namespace ortconv::kernels {

// How many bytes dst has.
inline double dst_bytes(const ConvProblem& p, size_t element_bytes) {
  double bytes = static_cast<double>(element_bytes) * static_cast<double>(p.mb) * static_cast<double>(p.oc);
  for (int a = 0; a < p.ndims; ++a) bytes *= static_cast<double>(p.dst_size[a]);
  return bytes;
}

// Whether dst is too large for the caches.
inline bool lies_far(const ConvProblem& p, size_t element_bytes) {
  constexpr double kFarBytes = 24 << 20;
  return dst_bytes(p, element_bytes) > kFarBytes;
}

// The share of what taps reach along an axis: of positions, or on the last axis of cache lines.
inline double reached_share(const ConvProblem& p, int a, size_t element_bytes) {
  const double line = static_cast<double>(kLineBytes) / static_cast<double>(element_bytes);  // in elements
  // The elements of the lines that a window reaches: of each tap its own, or all from the first tap to the last.
  const double taps = static_cast<double>(p.ker[a]), extent = static_cast<double>(kernel_extent(p, a));
  const double of_window = a + 1 < p.ndims ? taps : std::min(taps * line, extent + line);
  return std::min(1.0, of_window / static_cast<double>(p.stride[a]));
}

// Whether most cache lines of dst are reached by no tap.
inline bool is_mostly_gaps(const ConvProblem& p, size_t element_bytes) {
  constexpr double kMostReached = 0.5;
  double reached = 1;
  for (int a = 0; a < p.ndims; ++a) reached *= reached_share(p, a, element_bytes);
  return reached < kMostReached;
}

// Whether dst is mostly gaps and too large for the caches: its gaps are best written past these.
inline bool gaps_lie_far(const ConvProblem& p, size_t element_bytes) {
  return lies_far(p, element_bytes) && is_mostly_gaps(p, element_bytes);
}

// Fills memory with a number: with a kernel past the caches, after which finish_past_caches() is to be called.
template <class T>
void fill(T* out, int64_t n, T value, const WriteLinesKernel* past_caches) {
  constexpr int64_t kLine = kCacheLine<T>, kLeastLines = 4;
  if (past_caches != nullptr && n >= kLeastLines * kLine) {
    T values[kLine];
    std::fill_n(values, kLine, value);
    const int64_t part = until_line(out), whole = (n - part) / kLine * kLine;
    std::fill_n(out, part, value);
    past_caches->run({values, true, whole * static_cast<int64_t>(sizeof(T)), out + part});
    out += part + whole, n -= part + whole;
  }
  const T zero{};
  if (std::memcmp(&value, &zero, sizeof(T)) == 0) {
    std::memset(static_cast<void*>(out), 0, static_cast<size_t>(n) * sizeof(T));
  } else {
    std::fill_n(out, n, value);
  }
}

}  // namespace ortconv::kernels

// Filling what no tap reaches.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "base/problem.h"

#if defined(__x86_64__) || defined(_M_X64)
#include <emmintrin.h>
#endif

namespace ortconv::kernels {

// Whether dst is too large for the caches, and most of its cache lines are reached by no tap: these are best written
// past the caches.
inline bool gaps_lie_far(const ConvProblem& p, size_t element_bytes) {
  constexpr double kLine = 64, kFar = 36 << 20, kMostReached = 0.5;  // bytes; the share of lines
  const double number = static_cast<double>(element_bytes);
  double bytes = number * static_cast<double>(p.mb) * static_cast<double>(p.oc), reached = 1;
  for (int a = 0; a < p.ndims; ++a) {
    const double stride = static_cast<double>(p.stride[a]), taps = static_cast<double>(p.ker[a]);
    const double in_lines = (static_cast<double>(kernel_extent(p, a)) * number / kLine + 1) * kLine / number;
    bytes *= static_cast<double>(p.dst_size[a]);
    reached *= std::min(1.0, (a + 1 < p.ndims ? taps : std::min(taps * kLine / number, in_lines)) / stride);
  }
  return bytes > kFar && reached < kMostReached;
}

// Fills memory with a number.
template <class T>
void fill(T* out, int64_t n, T value) {
  const T zero{};
  if (std::memcmp(&value, &zero, sizeof(T)) == 0) {
    std::memset(static_cast<void*>(out), 0, static_cast<size_t>(n) * sizeof(T));
  } else {
    std::fill_n(out, n, value);
  }
}

// The same past the caches.
template <class T>
void fill_past_caches(T* out, int64_t n, T value) {
#if defined(__x86_64__) || defined(_M_X64)
  constexpr int64_t kLine = 64 / sizeof(T), kVector = sizeof(__m128i) / sizeof(T);
  if (n < 4 * kLine) return fill(out, n, value);
  for (; reinterpret_cast<uintptr_t>(out) % 64 != 0; ++out, --n) *out = value;
  alignas(sizeof(__m128i)) T values[kVector];
  std::fill_n(values, kVector, value);
  const __m128i vector = _mm_load_si128(reinterpret_cast<const __m128i*>(values));
  for (; n >= kLine; n -= kLine, out += kLine) {  // a line at a time: a loop around each store would take twice as long
    for (int64_t i = 0; i < kLine; i += kVector) _mm_stream_si128(reinterpret_cast<__m128i*>(out + i), vector);
  }
  _mm_sfence();
#endif
  fill(out, n, value);
}

}  // namespace ortconv::kernels

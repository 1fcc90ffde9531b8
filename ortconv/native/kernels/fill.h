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
  constexpr double kLineBytes = 64, kFarBytes = 24 << 20, kMostReached = 0.5;  // the share of lines
  const double line = kLineBytes / static_cast<double>(element_bytes);         // in elements
  double bytes = static_cast<double>(element_bytes) * static_cast<double>(p.mb) * static_cast<double>(p.oc),
         reached = 1;
  for (int a = 0; a < p.ndims; ++a) {
    // The elements of the lines that a window reaches: of each tap its own, or all from the first tap to the last.
    const double taps = static_cast<double>(p.ker[a]), extent = static_cast<double>(kernel_extent(p, a));
    const double of_window = a + 1 < p.ndims ? taps : std::min(taps * line, extent + line);
    bytes *= static_cast<double>(p.dst_size[a]);
    reached *= std::min(1.0, of_window / static_cast<double>(p.stride[a]));
  }
  return bytes > kFarBytes && reached < kMostReached;
}

// Fills memory with a number, and may write past the caches. Then finish_fills() is to follow before other threads
// learn of it; the thread itself may write the same memory at once.
template <class T>
void fill(T* out, int64_t n, T value, [[maybe_unused]] bool past_caches) {
#if defined(__x86_64__) || defined(_M_X64)
  constexpr int64_t kLine = 64 / sizeof(T), kVector = sizeof(__m128i) / sizeof(T), kLeastLines = 4;
  if (past_caches && n >= kLeastLines * kLine) {
    for (; reinterpret_cast<uintptr_t>(out) % 64 != 0; ++out, --n) *out = value;
    alignas(sizeof(__m128i)) T values[kVector];
    std::fill_n(values, kVector, value);
    const __m128i vector = _mm_load_si128(reinterpret_cast<const __m128i*>(values));
    for (; n >= kLine; n -= kLine, out += kLine) {  // a loop around each store would take twice as long
      for (int64_t i = 0; i < kLine; i += kVector) _mm_stream_si128(reinterpret_cast<__m128i*>(out + i), vector);
    }
  }
#endif
  const T zero{};
  if (std::memcmp(&value, &zero, sizeof(T)) == 0) {
    std::memset(static_cast<void*>(out), 0, static_cast<size_t>(n) * sizeof(T));
  } else {
    std::fill_n(out, n, value);
  }
}

inline void finish_fills([[maybe_unused]] bool past_caches) {
#if defined(__x86_64__) || defined(_M_X64)
  if (past_caches) _mm_sfence();
#endif
}

}  // namespace ortconv::kernels

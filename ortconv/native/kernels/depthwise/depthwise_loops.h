// The kernel for the vectors of an ISA.
//
// V is the ISA: Cell, Vector, kLanes, kRegisters; zero(), broadcast(cell), load(from), pick(from, index), add(a, b),
// multiply_add(a, b, c); store(to, vector), store_first(n, to, vector) and stream(to, vector), which may be store(), to
// elements of every type with sums of Cell.
#pragma once

#include <algorithm>

#include "kernels/depthwise/depthwise.h"
#include "kernels/depthwise/depthwise_box.h"
#include "kernels/unroll.h"

namespace ortconv::kernels {
namespace {

// Whether lanes pick their elements, and in how many patterns.
enum class Picks { kNone, kOnePattern, kPatterns };

template <Picks kPicks, class T>
int64_t patterns_of(const DepthwiseArgs<T>& args) {
  return kPicks == Picks::kPatterns ? args.patterns : 1;
}

// N vectors of the same pattern, from v on, of C rows of P positions; `ends` if the last vector is cut to `last` lanes.
template <class V, int P, int C, int N, Picks kPicks, class T>
inline void depthwise_tile(const DepthwiseArgs<T>& args, int64_t position, int64_t v, int64_t pattern, bool ends,
                           int64_t last) {
  using Cell = typename V::Cell;
  typename V::Vector acc[P][C][N];
  ORTCONV_UNROLL
  for (int p = 0; p < P; ++p) {
    ORTCONV_UNROLL
    for (int c = 0; c < C; ++c) {
      ORTCONV_UNROLL
      for (int i = 0; i < N; ++i) acc[p][c][i] = V::zero();
    }
  }
  const int64_t patterns = patterns_of<kPicks>(args), end = args.steps * patterns, stride = args.stride;
  const int64_t src_step = args.src_step;
  const int64_t begin = position * src_step + v / patterns * stride;
  for (int64_t r = 0; r < args.src_rows; ++r) {
    const Cell* src = args.src[r] + begin;
    const Cell* const* weights = args.weights[r];
    for (int64_t at = pattern; at < end; at += patterns) {
      const Cell* from = src + args.offset[at];
      typename V::Vector e[P][N];
      ORTCONV_UNROLL
      for (int p = 0; p < P; ++p) {
        ORTCONV_UNROLL
        for (int i = 0; i < N; ++i) {
          if constexpr (kPicks == Picks::kNone) {
            e[p][i] = V::load(from + p * src_step + i * stride);
          } else {
            e[p][i] = V::pick(from + p * src_step + i * stride, args.index + at * V::kLanes);
          }
        }
      }
      ORTCONV_UNROLL
      for (int c = 0; c < C; ++c) {
        if (weights[c] == nullptr) continue;
        const auto w = kPicks == Picks::kNone ? V::broadcast(weights[c][at]) : V::load(weights[c] + at * V::kLanes);
        ORTCONV_UNROLL
        for (int p = 0; p < P; ++p) {
          ORTCONV_UNROLL
          for (int i = 0; i < N; ++i) acc[p][c][i] = V::multiply_add(w, e[p][i], acc[p][c][i]);
        }
      }
    }
  }
  const auto bias = V::broadcast(args.bias);
  const bool stream = args.stream;
  write_sums<V, T>(acc, bias, [&](auto isa) ORTCONV_ALWAYS_INLINE {
    using Isa = decltype(isa);
    ORTCONV_UNROLL
    for (int p = 0; p < P; ++p) {
      ORTCONV_UNROLL
      for (int c = 0; c < C; ++c) {
        T* to = args.dst[c] + (position + p) * args.dst_step + v * V::kLanes;
        ORTCONV_UNROLL
        for (int i = 0; i < N; ++i, to += patterns * V::kLanes) {
          const auto sum = V::add(acc[p][c][i], bias);
          if (i + 1 == N && ends) {
            Isa::store_first(last, to, sum);
          } else if (stream) {
            Isa::stream(to, sum);
          } else {
            Isa::store(to, sum);
          }
        }
      }
    }
  });
}

// P positions from `position` on.
template <class V, int P, int C, Picks kPicks, class T>
void depthwise_positions(const DepthwiseArgs<T>& args, int64_t position) {
  // Sums enough to hide the latency of one, and few enough for the registers.
  constexpr int kSums = V::kRegisters >= 32 ? 16 : 8;
  constexpr int kMost = std::clamp(kSums / (P * C), 1, P * C <= 2 ? 4 : 8), kFewer = C <= 2 ? (kMost + 1) / 2 : 1;
  const int64_t vectors = (args.n + V::kLanes - 1) / V::kLanes, patterns = patterns_of<kPicks>(args);
  const int64_t last = args.n - (vectors - 1) * V::kLanes;
  for (int64_t pattern = 0; pattern < std::min(patterns, vectors); ++pattern) {
    int64_t v = pattern;
    const auto ends = [&](int64_t count) { return last < V::kLanes && v + count * patterns == vectors - 1 + patterns; };
    for (; v + (kMost - 1) * patterns < vectors; v += kMost * patterns) {
      depthwise_tile<V, P, C, kMost, kPicks>(args, position, v, pattern, ends(kMost), last);
    }
    for (; v + (kFewer - 1) * patterns < vectors; v += kFewer * patterns) {
      depthwise_tile<V, P, C, kFewer, kPicks>(args, position, v, pattern, ends(kFewer), last);
    }
    for (; v < vectors; v += patterns) {
      depthwise_tile<V, P, C, 1, kPicks>(args, position, v, pattern, ends(1), last);
    }
  }
}

template <class V, int C, Picks kPicks, class T>
void depthwise_rows(const DepthwiseArgs<T>& args) {
  constexpr int kPositions = C == 1 && kPicks != Picks::kPatterns ? 4 : 1;
  int64_t position = 0;
  for (; position + kPositions <= args.positions; position += kPositions) {
    depthwise_positions<V, kPositions, C, kPicks>(args, position);
  }
  for (; position < args.positions; ++position) depthwise_positions<V, 1, C, kPicks>(args, position);
}

template <class V, Picks kPicks, class T>
void depthwise_any_rows(const DepthwiseArgs<T>& args) {
  switch (args.dst_rows) {
    case 1:
      return depthwise_rows<V, 1, kPicks>(args);
    case 2:
      return depthwise_rows<V, 2, kPicks>(args);
    case 3:
      return depthwise_rows<V, 3, kPicks>(args);
    case 4:
      return depthwise_rows<V, 4, kPicks>(args);
    default:
      return depthwise_rows<V, 8, kPicks>(args);
  }
}

template <class V, class T>
void depthwise(const DepthwiseArgs<T>& args) {
  if (depthwise_box<V>(args)) return;
  if (args.index == nullptr) {
    depthwise_any_rows<V, Picks::kNone>(args);
  } else if (args.patterns == 1) {
    depthwise_any_rows<V, Picks::kOnePattern>(args);
  } else {
    depthwise_any_rows<V, Picks::kPatterns>(args);
  }
}

}  // namespace
}  // namespace ortconv::kernels

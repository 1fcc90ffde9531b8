// The kernel for the vectors of an ISA.
//
// V is the ISA: Cell, Vector, kLanes, kRegisters; zero(), broadcast(cell), load(from), pick(from, index), add(a, b),
// multiply_add(a, b, c); store(to, vector), store_first(n, to, vector) and stream(to, vector), which may be store(), to
// elements of every type with sums of Cell.
#pragma once

#include <algorithm>
#include <cstddef>
#include <type_traits>
#include <utility>

#include "base/math.h"
#include "kernels/depthwise/channel_lanes.h"
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

// Adds the bias to N vectors of a row and writes them `step` elements apart. `ends`: only `last` lanes of the last one.
template <class V, class Isa, size_t N, class T>
ORTCONV_ALWAYS_INLINE inline void store_sums(const typename V::Vector (&sums)[N], typename V::Vector bias, bool stream,
                                             T* to, int64_t step, bool ends, int64_t last) {
  ORTCONV_UNROLL
  for (size_t i = 0; i < N; ++i, to += step) {
    const auto sum = V::add(sums[i], bias);
    if (i + 1 == N && ends) {
      Isa::store_first(last, to, sum);
    } else if (stream) {
      Isa::stream(to, sum);
    } else {
      Isa::store(to, sum);
    }
  }
}

// Computes N vectors of one pattern, from v on, of C rows of P positions. `ends`: only `last` lanes of the last vector.
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
        T* const to = args.dst[c] + (position + p) * args.dst_step + v * V::kLanes;
        store_sums<V, Isa>(acc[p][c], bias, stream, to, patterns * V::kLanes, ends, last);
      }
    }
  });
}

// Calls fn with the constants N - 1 to 0.
template <size_t... kIndex, class Fn>
ORTCONV_ALWAYS_INLINE inline void from_high_to_low(std::index_sequence<kIndex...>, const Fn& fn) {
  constexpr int kLast = static_cast<int>(sizeof...(kIndex)) - 1;
  (fn(std::integral_constant<int, kLast - static_cast<int>(kIndex)>()), ...);
}

// Computes N vectors, from v on, of P positions, where lanes pick nothing and positions share the rows of src: each
// element is loaded once for all of them. There are at least P rows of taps.
template <class V, int P, int N, class T>
inline void depthwise_shared_tile(const DepthwiseArgs<T>& args, int64_t row, int64_t position, int64_t v, bool ends,
                                  int64_t last) {
  using Cell = typename V::Cell;
  typename V::Vector acc[P][N];
  ORTCONV_UNROLL
  for (int p = 0; p < P; ++p) {
    ORTCONV_UNROLL
    for (int i = 0; i < N; ++i) acc[p][i] = V::zero();
  }
  const int64_t src_rows = args.src_rows, steps = args.steps, stride = args.stride, src_step = args.src_step;
  const Cell* const origin = args.src[0] + position * src_step + v * stride;
  // Adds the row of src q rows after the first one of the first position: for positions [begin, end) it is tap p - q.
  const auto add_row = [&](int64_t q, auto begin, auto end) ORTCONV_ALWAYS_INLINE {
    constexpr int kBegin = decltype(begin)::value, kEnd = decltype(end)::value;
    const Cell* const src = origin + q * src_step;
    const Cell* weights[P];
    ORTCONV_UNROLL
    for (int p = kBegin; p < kEnd; ++p) weights[p] = args.weights[p - q][row];
    for (int64_t s = 0; s < steps; ++s) {
      typename V::Vector e[N];
      ORTCONV_UNROLL
      for (int i = 0; i < N; ++i) e[i] = V::load(src + args.offset[s] + i * stride);
      ORTCONV_UNROLL
      for (int p = kBegin; p < kEnd; ++p) {
        const auto w = V::broadcast(weights[p][s]);
        ORTCONV_UNROLL
        for (int i = 0; i < N; ++i) acc[p][i] = V::multiply_add(w, e[i], acc[p][i]);
      }
    }
  };
  // From the last row down, so that the taps of a position are in order.
  using First = std::integral_constant<int, 0>;
  using Last = std::integral_constant<int, P>;
  from_high_to_low(std::make_index_sequence<P - 1>(), [&](auto i) ORTCONV_ALWAYS_INLINE {
    add_row(i + 1, std::integral_constant<int, decltype(i)::value + 1>(), Last());
  });
  for (int64_t q = 0; q >= P - src_rows; --q) add_row(q, First(), Last());
  from_high_to_low(std::make_index_sequence<P - 1>(), [&](auto i) ORTCONV_ALWAYS_INLINE {
    add_row(i + 1 - src_rows, First(), std::integral_constant<int, decltype(i)::value + 1>());
  });
  const auto bias = V::broadcast(args.bias);
  const bool stream = args.stream;
  write_sums<V, T>(acc, bias, [&](auto isa) ORTCONV_ALWAYS_INLINE {
    using Isa = decltype(isa);
    ORTCONV_UNROLL
    for (int p = 0; p < P; ++p) {
      T* const to = args.dst[row] + (position + p) * args.dst_step + v * V::kLanes;
      store_sums<V, Isa>(acc[p], bias, stream, to, V::kLanes, ends, last);
    }
  });
}

// Computes as many positions as make whole tiles, if they share enough rows. Returns how many.
template <class V, class T>
int64_t depthwise_shared(const DepthwiseArgs<T>& args) {
  constexpr int kPositions = 4, kVectors = V::kRegisters >= 32 ? 4 : 2;
  if (!args.complete || args.src_rows < kPositions || !shares_rows(args)) return 0;
  const int64_t positions = args.positions / kPositions * kPositions;
  const int64_t vectors = ceil_div(args.n, V::kLanes), last = args.n - (vectors - 1) * V::kLanes;
  for (int64_t row = 0; row < args.dst_rows; ++row) {
    for (int64_t position = 0; position < positions; position += kPositions) {
      int64_t v = 0;
      const auto tile = [&](auto count) {
        constexpr int kCount = decltype(count)::value;
        const bool ends = last < V::kLanes && v + kCount == vectors;
        depthwise_shared_tile<V, kPositions, kCount>(args, row, position, v, ends, last);
        v += kCount;
      };
      while (v + kVectors <= vectors) tile(std::integral_constant<int, kVectors>());
      if (kVectors > 2 && v + 3 == vectors) tile(std::integral_constant<int, std::min(3, kVectors)>());
      if (kVectors > 2 && v + 2 == vectors) tile(std::integral_constant<int, 2>());
      if (v + 1 == vectors) tile(std::integral_constant<int, 1>());
    }
  }
  return positions;
}

// Computes P positions from `position` on.
template <class V, int P, int C, Picks kPicks, class T>
void depthwise_positions(const DepthwiseArgs<T>& args, int64_t position) {
  // Enough sums to hide the latency of an FMA, few enough for the registers.
  constexpr int kSums = V::kRegisters >= 32 ? 16 : 8;
  constexpr int kMost = std::clamp(kSums / (P * C), 1, P * C <= 2 ? 4 : 8), kFewer = C <= 2 ? (kMost + 1) / 2 : 1;
  const int64_t vectors = ceil_div(args.n, V::kLanes), patterns = patterns_of<kPicks>(args);
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

// Computes the positions from `position` on.
template <class V, int C, Picks kPicks, class T>
void depthwise_rows(const DepthwiseArgs<T>& args, int64_t position) {
  constexpr int kPositions = C == 1 && kPicks != Picks::kPatterns ? 4 : 1;
  for (; position + kPositions <= args.positions; position += kPositions) {
    depthwise_positions<V, kPositions, C, kPicks>(args, position);
  }
  for (; position < args.positions; ++position) depthwise_positions<V, 1, C, kPicks>(args, position);
}

template <class V, Picks kPicks, class T>
void depthwise_any_rows(const DepthwiseArgs<T>& args, int64_t position = 0) {
  switch (args.dst_rows) {
    case 1:
      return depthwise_rows<V, 1, kPicks>(args, position);
    case 2:
      return depthwise_rows<V, 2, kPicks>(args, position);
    case 3:
      return depthwise_rows<V, 3, kPicks>(args, position);
    case 4:
      return depthwise_rows<V, 4, kPicks>(args, position);
    default:
      return depthwise_rows<V, 8, kPicks>(args, position);
  }
}

template <class V, class T>
void depthwise(const DepthwiseArgs<T>& args) {
  if (depthwise_box<V>(args)) return;
  if (args.index == nullptr) {
    depthwise_any_rows<V, Picks::kNone>(args, depthwise_shared<V>(args));
  } else if (args.patterns == 1) {
    depthwise_any_rows<V, Picks::kOnePattern>(args);
  } else {
    depthwise_any_rows<V, Picks::kPatterns>(args);
  }
}

// The kernel of an ISA with these vectors of floats and of doubles.
template <class Floats, class Doubles>
constexpr DepthwiseKernel depthwise_kernel(const char* name) {
  return {
      name,
      Floats::kLanes,
      Doubles::kLanes,
      true,
      {depthwise<Floats, float>, depthwise<Doubles, double>, depthwise<Floats, Float16>, depthwise<Floats, Bfloat16>},
      {channel_lanes<Floats>, channel_lanes<Doubles>}};
}

}  // namespace
}  // namespace ortconv::kernels

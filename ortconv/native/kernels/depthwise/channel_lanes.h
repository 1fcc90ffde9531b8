// The kernel whose lanes are channels, for the vectors of an ISA. V is as in depthwise_loops.h.
#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>

#include "base/math.h"
#include "kernels/depthwise/depthwise.h"
#include "kernels/unroll.h"

namespace ortconv::kernels {
namespace {

// Computes N positions of C rows, from `first` on.
template <class V, int C, int N>
void channel_lanes_tile(const ChannelLanesArgs<typename V::Cell>& args, int64_t first) {
  using Cell = typename V::Cell;
  typename V::Vector acc[C][N];
  ORTCONV_UNROLL
  for (int c = 0; c < C; ++c) {
    ORTCONV_UNROLL
    for (int i = 0; i < N; ++i) acc[c][i] = V::zero();
  }
  const int64_t src_rows = args.src_rows, steps = args.steps;
  const int64_t *src_offset = args.src_offset, *weight_offset = args.weight_offset;
  for (int64_t r = 0; r < src_rows; ++r) {
    const Cell* const src = args.src[r] + first * V::kLanes;
    const Cell* const* weights = args.weights[r];
    if (C == kMaxLaneRows && weights[0] != nullptr && weights[C - 1] != nullptr) {
      for (int64_t t = 0; t < steps; ++t) {
        const auto w = V::load(weights[0] + weight_offset[t]), next_w = V::load(weights[C - 1] + weight_offset[t]);
        const Cell* const from = src + src_offset[t];
        ORTCONV_UNROLL
        for (int i = 0; i < N; ++i) {
          auto e = V::load(from + i * V::kLanes);
          ORTCONV_KEEP(e);
          acc[0][i] = V::multiply_add(w, e, acc[0][i]);
          acc[C - 1][i] = V::multiply_add(next_w, e, acc[C - 1][i]);
        }
      }
      continue;
    }
    ORTCONV_UNROLL
    for (int c = 0; c < C; ++c) {
      if (weights[c] == nullptr) continue;
      for (int64_t t = 0; t < steps; ++t) {
        const auto w = V::load(weights[c] + weight_offset[t]);
        const Cell* const from = src + src_offset[t];
        ORTCONV_UNROLL
        for (int i = 0; i < N; ++i) acc[c][i] = V::multiply_add(w, V::load(from + i * V::kLanes), acc[c][i]);
      }
    }
  }
  const auto bias = V::load(args.bias);
  ORTCONV_UNROLL
  for (int c = 0; c < C; ++c) {
    Cell* to = args.dst[c] + first * args.dst_step;
    ORTCONV_UNROLL
    for (int i = 0; i < N; ++i, to += args.dst_step) V::store(to, V::add(acc[c][i], bias));
  }
}

template <class V, int C, size_t... kIndex>
void channel_lanes_rows(const ChannelLanesArgs<typename V::Cell>& args, std::index_sequence<kIndex...>) {
  constexpr int64_t kMost = sizeof...(kIndex);
  static constexpr void (*kTiles[])(const ChannelLanesArgs<typename V::Cell>&,
                                    int64_t) = {channel_lanes_tile<V, C, static_cast<int>(kIndex) + 1>...};
  if (args.positions <= kMost) return kTiles[args.positions - 1](args, 0);
  const int64_t tiles = ceil_div(args.positions, kMost);
  for (int64_t i = 0; i < tiles; ++i) {
    const int64_t begin = args.positions * i / tiles;
    kTiles[args.positions * (i + 1) / tiles - begin - 1](args, begin);
  }
}

// The sums fill all registers but those of an element and the weights. The widths of most rows are multiples of 7.
template <class V>
void channel_lanes(const ChannelLanesArgs<typename V::Cell>& args) {
  constexpr size_t kPositions = 14, kPositionsOfTwo = V::kRegisters >= 32 ? 14 : 6;
  if (args.dst_rows == 1) return channel_lanes_rows<V, 1>(args, std::make_index_sequence<kPositions>());
  channel_lanes_rows<V, kMaxLaneRows>(args, std::make_index_sequence<kPositionsOfTwo>());
}

}  // namespace
}  // namespace ortconv::kernels

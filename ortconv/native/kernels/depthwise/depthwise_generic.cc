#include <algorithm>

#include "base/math.h"
#include "kernels/depthwise/depthwise.h"

namespace ortconv::kernels {
namespace {

template <class T>
constexpr int64_t kLanes = 32 / static_cast<int64_t>(sizeof(Sum<T>));

// sums[l] += weights * elements for the lanes of one vector.
template <class Cell, int64_t L>
void add_tap(const Cell* from, const int32_t* index, const Cell* weights, Cell (&sums)[L]) {
  for (int64_t l = 0; l < L; ++l) sums[l] += weights[l] * (index[l] < 0 ? Cell() : from[index[l]]);
}
template <class Cell, int64_t L>
void add_tap(const Cell* from, Cell weight, Cell (&sums)[L]) {
  for (int64_t l = 0; l < L; ++l) sums[l] += weight * from[l];
}

}  // namespace

template <class T>
void depthwise_generic(const DepthwiseArgs<T>& args) {
  using Cell = Sum<T>;
  constexpr int64_t L = kLanes<T>;
  const int64_t vectors = ceil_div(args.n, L), end = args.steps * args.patterns;
  for (int64_t i = 0; i < args.positions * vectors; ++i) {
    const int64_t position = i / vectors, v = i % vectors;
    const int64_t begin = position * args.src_step + v / args.patterns * args.stride;
    for (int64_t c = 0; c < args.dst_rows; ++c) {
      Cell sums[L] = {};
      for (int64_t r = 0; r < args.src_rows; ++r) {
        const Cell* w = args.weights[r][c];
        const Cell* src = args.src[r] + begin;
        for (int64_t at = v % args.patterns; at < end && w != nullptr; at += args.patterns) {
          if (args.index == nullptr) {
            add_tap(src + args.offset[at], w[at], sums);
          } else {
            add_tap(src + args.offset[at], args.index + at * L, w + at * L, sums);
          }
        }
      }
      T* to = args.dst[c] + position * args.dst_step + v * L;
      const int64_t count = std::min(L, args.n - v * L);
      for (int64_t l = 0; l < count; ++l) round_to(to + l, sums[l] + args.bias);
    }
  }
}

#define INSTANTIATE(T) template void depthwise_generic(const DepthwiseArgs<T>&);
ORTCONV_FLOAT_TYPES(INSTANTIATE)
#undef INSTANTIATE

template <class Cell>
void channel_lanes_generic(const ChannelLanesArgs<Cell>& args) {
  constexpr int64_t L = kLanes<Cell>;
  for (int64_t i = 0; i < args.dst_rows * args.positions; ++i) {
    const int64_t c = i / args.positions, p = i % args.positions;
    Cell sums[L] = {};
    for (int64_t r = 0; r < args.src_rows; ++r) {
      for (int64_t t = 0; t < args.steps && args.weights[r][c] != nullptr; ++t) {
        const Cell* weights = args.weights[r][c] + args.weight_offset[t];
        const Cell* from = args.src[r] + p * L + args.src_offset[t];
        for (int64_t l = 0; l < L; ++l) sums[l] += weights[l] * from[l];
      }
    }
    for (int64_t l = 0; l < L; ++l) args.dst[c][p * args.dst_step + l] = sums[l] + args.bias[l];
  }
}

template void channel_lanes_generic(const ChannelLanesArgs<float>&);
template void channel_lanes_generic(const ChannelLanesArgs<double>&);

extern const DepthwiseKernel kDepthwise_generic;
const DepthwiseKernel kDepthwise_generic = {
    "depthwise_generic",
    kLanes<float>,
    kLanes<double>,
    false,
    {depthwise_generic<float>, depthwise_generic<double>, depthwise_generic<Float16>, depthwise_generic<Bfloat16>},
    {channel_lanes_generic<float>, channel_lanes_generic<double>}};

}  // namespace ortconv::kernels

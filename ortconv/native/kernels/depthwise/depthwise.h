// Rows of dst of a convolution whose groups have one src channel each.
//
// A vector holds neighbouring elements of a row of dst, so no phases have to be interleaved: a permutation picks the
// element of src for every lane, and the weights of a tap differ between lanes, as their phases do. Both repeat after a
// few vectors, the *patterns*. Several rows of dst that need the same elements share the picks.
//
// Where rows are short, the lanes of a vector are channels instead, which have been interleaved.
//
// A new kernel supplies the functions of DepthwiseKernel in a file named after its ISA, from depthwise_loops.h or not,
// and one row in kernels.inc.
#pragma once

#include <cstdint>
#include <tuple>

#include "base/arch.h"
#include "kernels/element.h"

namespace ortconv::kernels {

// Rows of dst of one position that a call may have: 8, 4, 3, 2 or 1.
constexpr int64_t kMaxDepthwiseRows = 8;
constexpr int64_t depthwise_rows_of(int64_t wanted) { return wanted >= 8 ? 8 : wanted >= 4 ? 4 : wanted; }

// dst[c][p * dst_step + i] = bias + sum over rows r of src that have weights for c, and steps t, of
//     weights[r][c][at * lanes + l] * src[r][p * src_step + v / patterns * stride + offset[at] + index[at * lanes + l]]
// rounded to T, for 0 <= p < positions, 0 <= i < n, where i = v * lanes + l with the lanes of the kernel, and
// at = t * patterns + v % patterns. Elements of index -1 are zero. Without an index
// there is one pattern, lane l takes element l, and all lanes have the weight weights[r][c][at]. src is readable for
// `lanes` elements wherever one of a vector is read.
template <class T>
struct DepthwiseArgs {
  int64_t positions, src_step, dst_step;
  int64_t src_rows;
  const Sum<T>* const* src;
  const Sum<T>* const* const* weights;  // [r][c]: null where the row has none
  int64_t steps, patterns;
  int64_t stride;
  const int64_t* offset;
  const int32_t* index;  // null: none
  int64_t dst_rows;      // see depthwise_rows_of()
  T* const* dst;
  int64_t n;
  Sum<T> bias;
  bool complete;  // no weights are null, every step has the index of the first, and that has no -1
  bool stream;    // dst is too large for the caches, see Store, and its rows are aligned to 64 bytes at every position
};
template <class T>
using DepthwiseFn = void (*)(const DepthwiseArgs<T>&);

// One row or two rows c of dst of as many channels as a vector has lanes:
//     dst[c][p * dst_step + l] = bias[l] + sum over rows r of src that have weights for c, and steps t, of
//         weights[r][c][weight_offset[t] + l] * src[r][p * lanes + src_offset[t] + l]
// for 0 <= p < positions, 0 <= l < lanes.
constexpr int kMaxLaneRows = 2;
template <class Cell>
struct ChannelLanesArgs {
  int64_t positions, dst_step;
  int64_t src_rows;
  const Cell* const* src;
  const Cell* const (*weights)[kMaxLaneRows];  // null where the row has none
  int64_t steps;
  const int64_t *src_offset, *weight_offset;
  const Cell* bias;
  int64_t dst_rows;
  Cell* dst[kMaxLaneRows];
};
template <class Cell>
using ChannelLanesFn = void (*)(const ChannelLanesArgs<Cell>&);

struct DepthwiseKernel {
  const char* name;
  int64_t lanes_f32, lanes_f64;  // of vectors of sums
  bool picks_fast;               // and not lane by lane
  std::tuple<DepthwiseFn<float>, DepthwiseFn<double>, DepthwiseFn<Float16>, DepthwiseFn<Bfloat16>> functions;
  std::tuple<ChannelLanesFn<float>, ChannelLanesFn<double>> channel_lanes;

  template <class T>
  void run(const DepthwiseArgs<T>& args) const {
    std::get<DepthwiseFn<T>>(functions)(args);
  }
  template <class Cell>
  void run(const ChannelLanesArgs<Cell>& args) const {
    std::get<ChannelLanesFn<Cell>>(channel_lanes)(args);
  }
};

// The best kernel for these flags; the portable one when no other fits.
const DepthwiseKernel& get_depthwise_kernel(const ArchFlags& arch);

}  // namespace ortconv::kernels

// One convolution problem after validation: sizes and memory strides, no layouts, no ORT types.
//
// Every layout the ops accept is a set of strides here, so a kernel either takes any strides or tests for
// the ones it wants. All strides are in elements, and zero where the tensor is empty. Sizes, strides, paddings and what
// they reach are below 2^61, so sums of a few of them do not overflow.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>

#include "base/activation.h"
#include "base/math.h"

namespace ortconv {

// Spatial axes supported (tensors of rank 3 to 8).
constexpr int kMaxSpatial = 6;

// src [mb, ic, src_size...], dst [mb, oc, dst_size...];
// wei [ic, oc/g, ker...] for a transposed convolution, [oc, ic/g, ker...] for a convolution.
struct ConvProblem {
  int ndims = 0;  // spatial axes, 1..kMaxSpatial
  int64_t mb = 0;
  int64_t g = 1;
  int64_t ic = 0;  // channels of src, all groups
  int64_t oc = 0;  // channels of dst, all groups

  int64_t src_size[kMaxSpatial] = {};
  int64_t dst_size[kMaxSpatial] = {};
  int64_t ker[kMaxSpatial] = {};
  int64_t stride[kMaxSpatial] = {};
  int64_t dilation[kMaxSpatial] = {};  // 1 where ker is 1
  int64_t pad[kMaxSpatial] = {};       // begin padding, >= 0; the end padding is implied by dst_size

  int64_t src_n = 0, src_c = 0, src_x[kMaxSpatial] = {};
  int64_t wei_0 = 0, wei_1 = 0, wei_x[kMaxSpatial] = {};  // strides of the first and second logical weight axis
  int64_t dst_n = 0, dst_c = 0, dst_x[kMaxSpatial] = {};

  Activation activation;  // of every element of dst, after it is rounded to its type
};

// The positions from the first tap of a window to the last.
inline int64_t kernel_extent(const ConvProblem& p, int axis) { return (p.ker[axis] - 1) * p.dilation[axis] + 1; }

// Whether the positions of a channel of src follow each other.
inline bool src_positions_are_dense(const ConvProblem& p) {
  int64_t dense = 1;
  for (int a = p.ndims - 1; a >= 0; --a) {
    if (p.src_x[a] != dense && p.src_size[a] > 1) return false;
    dense *= p.src_size[a];
  }
  return true;
}

// Whether all numbers of src do: [image][channel][position].
inline bool src_is_dense(const ConvProblem& p) {
  const int64_t channel = product_of(p.src_size, p.ndims);
  return src_positions_are_dense(p) && (p.src_c == channel || p.ic == 1) && (p.src_n == channel * p.ic || p.mb == 1);
}

// How many taps there are on an axis of a transposed convolution from the first to the last by which a position of src
// lands in dst.
inline int64_t reaching_taps(const ConvProblem& p, int axis) {
  const int64_t first = p.pad[axis] - (p.src_size[axis] - 1) * p.stride[axis];
  const int64_t begin = std::max<int64_t>(0, ceil_div(first, p.dilation[axis]));
  const int64_t end = std::min(p.ker[axis], floor_div(p.dst_size[axis] - 1 + p.pad[axis], p.dilation[axis]) + 1);
  return std::max<int64_t>(0, end - begin);
}

// The most taps on an axis that an output of a transposed convolution sums: of its phase, and as many as src has
// positions for.
struct MostTaps {
  int64_t of_phase, met;
};
inline MostTaps most_taps(const ConvProblem& p, int axis) {
  const int64_t common = std::gcd(p.stride[axis], p.dilation[axis]);
  const int64_t of_phase = ceil_div(p.ker[axis], p.stride[axis] / common);
  return {of_phase, std::min(of_phase, ceil_div(p.src_size[axis], p.dilation[axis] / common))};
}

}  // namespace ortconv

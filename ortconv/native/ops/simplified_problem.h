// A transposed convolution with fewer taps or fewer axes that computes the same.
//
// Taps that land in dst from no element of src are left out: those at either end of a kernel that padding crops
// altogether.
//
// Along an axis where src has one element, every element of dst has a tap of its own, and the taps that land in dst are
// as many as its length D. They are like further taps of the axis before: for y = x * s + k - pad there, and z here,
//     y * D + z = x * (s * D) + (k * D + z) - pad * D,
// which has D times the kernel, the stride and the padding. An image of one column becomes a row, and rows are what the
// kernels are fast at.
#pragma once

#include <cstddef>
#include <optional>

#include "base/dtype.h"
#include "base/problem.h"

namespace ortconv {

// The taps that are left, of every axis, and how many axes are: what the weights are.
struct Crop {
  int axes = 0;
  int64_t begin[kMaxSpatial] = {}, size[kMaxSpatial] = {};
};
bool operator==(const Crop& a, const Crop& b);

struct SimplifiedProblem {
  Crop crop;
  ConvProblem problem;  // with the weights that crop_weights() copies, or those of the full problem
  bool copies = false;  // whether the former
};

// Simplifies a transposed convolution. No size may be 0. Returns nothing if there is nothing to simplify, or if that
// needs a copy of the weights and `may_copy` is false.
//
// Taps are left out if they are so many that a copy of the other weights pays. The last axes are merged if src has one
// element along them and more along another axis, unless an element of dst has no tap, taps are dilated, or dst is not
// dense.
std::optional<SimplifiedProblem> simplified(const ConvProblem& full, bool may_copy);

// Bytes of the copy of the weights, and the copy: [ic, oc/g, taps of the crop], dense.
size_t cropped_bytes(DataType dtype, const ConvProblem& full, const Crop& crop);
void crop_weights(DataType dtype, const ConvProblem& full, const Crop& crop, const void* wei, void* copy);

}  // namespace ortconv

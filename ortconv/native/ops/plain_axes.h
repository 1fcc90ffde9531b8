// Axes along which a convolution does nothing: the same problem with fewer axes.
//
// Along a plain axis the kernel has one tap, and dst is as long as src: position x of dst is position x of src. If it
// follows an axis without a stride, and both are dense, they are one axis: with n positions of the plain one,
//     y = x + k * d - pad   becomes   (y * n + z) = (x * n + z) + k * (d * n) - pad * n.
// So there are longer rows, and fewer loops around them. One position alone is no axis at all. The weights stay what
// they are.
#pragma once

#include "base/problem.h"

namespace ortconv {

// The problem without the plain axes that can be merged. No size is 0.
ConvProblem without_plain_axes(const ConvProblem& problem);

}  // namespace ortconv

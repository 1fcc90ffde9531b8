#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/conv/conv.h"

namespace ortconv::kernels {

struct Shape {
  Op op = Op::kConvTranspose;
  std::vector<int64_t> src, ker, stride, dilation, pad, pad_end;  // pad_end may be negative: dst beyond the full extent
  int64_t mb = 1, g = 1, ic = 1, oc = 1;
  bool bias = true, nxc = false, constant = true, activated = false;

  std::string describe() const;
};

// Those that reach the paths one by one, and random ones.
std::vector<Shape> shapes(int random_count);

}  // namespace ortconv::kernels

// The steps that write a channel of dst from its beginning to its end.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "kernels/expand/expand.h"
#include "kernels/gemm_col2im/geometry.h"

namespace ortconv::kernels::gemm_col2im {

struct StepLists {
  // What they depend on.
  using Key = std::array<int64_t, 3 + 4 * kMaxAxes>;
  Key key;
  std::vector<std::vector<ExpandStep>> of_slab;

  explicit StepLists(const Geometry& geometry);
  static Key key_of(const Geometry& geometry);
};

}  // namespace ortconv::kernels::gemm_col2im

// The steps that write channels of dst from their beginning to their end.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "kernels/expand/expand.h"
#include "kernels/gemm_col2im/geometry.h"

namespace ortconv::kernels::gemm_col2im {

struct StepLists {
  // What they depend on.
  using Key = std::array<int64_t, 5 + 4 * kMaxAxes>;
  Key key;
  std::vector<std::vector<ExpandStep>> of_slab;

  // Of so many channels.
  StepLists(const Geometry& geometry, int64_t channels);
  static Key key_of(const Geometry& geometry, int64_t channels);
};

}  // namespace ortconv::kernels::gemm_col2im

// The steps that write channels of dst from their beginning to their end.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/expand/steps.h"
#include "kernels/gemm_col2im/geometry.h"

namespace ortconv::kernels::gemm_col2im {

struct StepLists {
  // All that the steps depend on, of the geometry and of each axis. What a plan has for every problem is left out.
  static constexpr size_t kCommon = 8, kOfAxis = 8;
  using Key = std::array<int64_t, kCommon + kOfAxis * kMaxAxes>;
  Key key;
  std::vector<std::vector<ExpandPart>> of_slab;

  // Of so many channels.
  StepLists(const Geometry& geometry, int64_t channels);
  static Key key_of(const Geometry& geometry, int64_t channels);
};

}  // namespace ortconv::kernels::gemm_col2im

// What the tests of plans share.
#pragma once

#include <string>

#include "cuda/plan/plan.h"
#include "testing/cases.h"
#include "testing/test.h"

namespace ortconv::cuda {

using test::Case;
using test::CaseMaker;

constexpr DataType kTypes[] = {DataType::kFloat, DataType::kFloat16, DataType::kBfloat16};

inline void expect_within_limits(const Launch& launch, const Device& device, const std::string& what) {
  uint64_t threads = 1;
  for (uint32_t size : launch.block) threads *= size;
  EXPECT(threads >= 1 && threads <= 1024, what, ": ", threads, " threads");
  EXPECT(launch.shared_bytes <= device.shared_bytes, what, ": ", launch.shared_bytes, " bytes of shared memory");
  EXPECT(launch.grid[0] >= 1 && launch.grid[0] <= 0x7fffffffu, what, ": grid ", launch.grid[0]);
  for (int i : {1, 2}) EXPECT(launch.grid[i] >= 1 && launch.grid[i] <= 0xffff, what, ": grid ", launch.grid[i]);
  EXPECT(launch.params.size() <= 4096, what, ": ", launch.params.size(), " bytes of parameters");
}

// Memory order [mb, x..., c] for X and Y.
inline void make_channels_last(Case* c) {
  const int ndims = c->attributes.ndims();
  for (auto* perm : {&c->attributes.x_perm, &c->attributes.y_perm}) {
    *perm = {0, ndims + 1};
    for (int axis = 0; axis < ndims; ++axis) perm->push_back(axis + 1);
  }
  const Shape x = c->x;
  for (int axis = 0; axis < ndims + 2; ++axis) c->x[c->attributes.x_perm[axis]] = x[axis];
}

}  // namespace ortconv::cuda

// The dots kernel for any vectors. Only for files named after their ISA.
#pragma once

#include <algorithm>

#include "kernels/dots/dots.h"
#include "kernels/unroll.h"

namespace ortconv::kernels {
namespace {

// Two sums of each row at a time, so that an addition need not wait for the one before.
template <class V, int kRows>
void rows(const DotsArgs<typename V::Cell>& args, int64_t first) {
  constexpr int64_t kLanes = V::kLanes;
  typename V::Vector sums[kRows][2];
  for (auto& row : sums) row[0] = row[1] = V::zero();
  const auto* b = args.b + first * args.pitch;
  int64_t k = 0;
  for (; k + 2 * kLanes <= args.count; k += 2 * kLanes) {
    ORTCONV_UNROLL
    for (int half = 0; half < 2; ++half) {
      const int64_t at = k + half * kLanes;
#if defined(__GNUC__)
      __builtin_prefetch(args.next + at);
#endif
      const auto a = V::load(args.a + at);
      ORTCONV_UNROLL
      for (int r = 0; r < kRows; ++r) {
        sums[r][half] = V::multiply_add(a, V::load(b + r * args.pitch + at), sums[r][half]);
      }
    }
  }
  for (int half = 0; k < args.count; k += kLanes, ++half) {
    const int64_t left = std::min(kLanes, args.count - k);
    const auto a = V::load_first(left, args.a + k);
    ORTCONV_UNROLL
    for (int r = 0; r < kRows; ++r) {
      sums[r][half] = V::multiply_add(a, V::load_first(left, b + r * args.pitch + k), sums[r][half]);
    }
  }
  ORTCONV_UNROLL
  for (int r = 0; r < kRows; ++r) args.out[first + r] = V::sum(V::add(sums[r][0], sums[r][1]));
}

template <class V>
void dots(const DotsArgs<typename V::Cell>& args) {
  constexpr int64_t kMost = 4;  // rows
  int64_t row = 0;
  for (; row + kMost <= args.rows; row += kMost) rows<V, kMost>(args, row);
  switch (args.rows - row) {
    case 3:
      return rows<V, 3>(args, row);
    case 2:
      return rows<V, 2>(args, row);
    case 1:
      return rows<V, 1>(args, row);
    default:
      return;
  }
}

}  // namespace
}  // namespace ortconv::kernels

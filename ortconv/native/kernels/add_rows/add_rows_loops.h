// Adding rows, by vectors of any instruction set. Only for files named after one.
#pragma once

#include "kernels/add_rows/add_rows.h"

namespace ortconv::kernels {
namespace {

// Vectors has kLanes, load(), add(), store(). The last vector begins earlier where it would go beyond the row, and is
// read before anything is written: a masked one would have the row after it, which is often next to it, wait.
template <class Vectors, class T>
void add_rows(const AddRowsArgs<T>& args) {
  constexpr int64_t kLanes = Vectors::kLanes;
  const T* src = args.src;
  T* dst = args.dst;
  const int64_t last = args.length - kLanes;
  for (int64_t row = 0; row < args.rows; ++row, src += args.src_step, dst += args.dst_step) {
    if (last < 0) {
      for (int64_t i = 0; i < args.length; ++i) dst[i] += src[i];
      continue;
    }
    const auto sum = [&](int64_t i) { return Vectors::add(Vectors::load(dst + i), Vectors::load(src + i)); };
    const auto end = sum(last);
    for (int64_t i = 0; i < last; i += kLanes) Vectors::store(dst + i, sum(i));
    Vectors::store(dst + last, end);
  }
}

}  // namespace
}  // namespace ortconv::kernels

// Loops over a Parallel.
#pragma once

#include <cstdint>

#include "ops/problem.h"

namespace ortconv {

// Calls fn(i) for i in [0, n).
template <class Fn>
void for_each(const Parallel& parallel, int64_t n, Fn fn) {
  parallel.run(parallel.context, n, [](void* arg, int64_t i) { (*static_cast<Fn*>(arg))(i); }, &fn);
}

// Runs everything on the calling thread.
inline Parallel serial() {
  Parallel parallel;
  parallel.run = [](void*, int64_t n, void (*fn)(void*, int64_t), void* arg) {
    for (int64_t i = 0; i < n; ++i) fn(arg, i);
  };
  return parallel;
}

}  // namespace ortconv

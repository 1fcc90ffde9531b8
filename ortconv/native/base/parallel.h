// Loops that may run on several threads.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/math.h"

namespace ortconv {

// Runs fn(arg, i) for every i in [0, n), possibly on several threads; returns when all have run.
// `threads` is a hint for how finely to split the work.
struct Parallel {
  void* context = nullptr;
  void (*run)(void* context, int64_t n, void (*fn)(void* arg, int64_t i), void* arg) = nullptr;
  int threads = 1;
};

// So many parts are enough, where more of them cost something: a pool may have fewer threads than it says.
constexpr int kFewThreads = 8;

// Whether so many parts, which take equally long, keep the threads busy for a share of the time.
inline bool keep_busy(int64_t parts, int64_t threads, double share) {
  return static_cast<double>(parts) >= share * static_cast<double>(align_up(parts, threads));
}

// Calls fn(i) for i in [0, n).
template <class Fn>
void for_each(const Parallel& parallel, int64_t n, Fn fn) {
  parallel.run(parallel.context, n, [](void* arg, int64_t i) { (*static_cast<Fn*>(arg))(i); }, &fn);
}

// Calls fn(begin, end) for ranges that together are [0, count). None has fewer than `least`, which would take less time
// than waking a thread, unless it is the only one.
template <class Fn>
void for_each_range(const Parallel& parallel, int64_t count, int64_t least, Fn fn) {
  constexpr int64_t kOfThread = 4;
  const int64_t parts = std::clamp<int64_t>(count / least, 1, kOfThread * std::max(parallel.threads, 1));
  for_each(parallel, parts, [&](int64_t i) { fn(even_begin(count, i, parts, 1), even_begin(count, i + 1, parts, 1)); });
}

// So many numbers to copy are worth waking a thread.
constexpr int64_t kManyCopied = 16 << 10;

// Runs everything on the calling thread.
inline Parallel serial() {
  Parallel parallel;
  parallel.run = [](void*, int64_t n, void (*fn)(void*, int64_t), void* arg) {
    for (int64_t i = 0; i < n; ++i) fn(arg, i);
  };
  return parallel;
}

}  // namespace ortconv

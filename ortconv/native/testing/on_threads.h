// Threads for tests.
#pragma once

#include <cstdint>
#include <thread>
#include <vector>

#include "base/parallel.h"
#include "base/problem.h"

namespace ortconv {

// So many threads that take turns, and the items in reverse order.
inline Parallel on_threads(int count) {
  Parallel parallel;
  parallel.threads = count;
  parallel.context = reinterpret_cast<void*>(static_cast<intptr_t>(count));
  parallel.run = [](void* context, int64_t n, void (*fn)(void*, int64_t), void* arg) {
    const auto step = static_cast<int64_t>(reinterpret_cast<intptr_t>(context));
    std::vector<std::thread> pool;
    for (int64_t t = 0; t < step && t < n; ++t) {
      pool.emplace_back([=] {
        for (int64_t i = n - 1 - t; i >= 0; i -= step) fn(arg, i);
      });
    }
    for (std::thread& thread : pool) thread.join();
  };
  return parallel;
}

}  // namespace ortconv

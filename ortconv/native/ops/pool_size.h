// How many threads a run is worth cutting up for.
#pragma once

#include <atomic>
#include <chrono>

#include "base/parallel.h"
#include "base/problem.h"

namespace ortconv {

// What is known of a pool that does not tell its size. Work for more threads than there are is cut finer than it need
// be, and parts of it are done again and again; so whether there is more than one is found out, by two tasks of which
// the first waits for the second. Concurrent runs may share it.
class PoolSize {
 public:
  // Longer than a sleeping thread takes to wake up, and nothing beside the creation of a session.
  static constexpr std::chrono::microseconds kPatience{100};

  // pool.threads, or 1 where tasks of the pool did not meet. The first runs ask, and later ones ever more rarely;
  // a task waits as long as `patience` for the other.
  int threads(const Parallel& pool, std::chrono::microseconds patience = kPatience);

 private:
  static constexpr int kQuestions = 3;  // before it is believed that there is one thread: a busy one may be late
  static constexpr int kPeriod = 1024;  // runs: one more is asked at 4, 16, 64 and so on until then
  // Whether one is asked at a run, counted from 0.
  static bool is_due(int run);

  std::atomic<bool> several_{false};
  std::atomic<int> runs_{0};  // so far, but starts again after kPeriod / 4
};

}  // namespace ortconv

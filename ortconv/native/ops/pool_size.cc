#include "ops/pool_size.h"

#include <thread>

namespace ortconv {
namespace {

// Whether two tasks are under way at the same time.
bool tasks_meet(const Parallel& pool, std::chrono::microseconds patience) {
  struct Meeting {
    const std::chrono::microseconds patience;
    std::atomic<int> arrived{0};
    std::atomic<bool> met{false};
  } meeting{patience};
  pool.run(
      pool.context, 2,
      [](void* arg, int64_t) {
        Meeting& m = *static_cast<Meeting*>(arg);
        if (m.arrived.fetch_add(1) > 0) return;
        const auto end = std::chrono::steady_clock::now() + m.patience;
        while (m.arrived.load() < 2) {
          if (std::chrono::steady_clock::now() > end) return;
          std::this_thread::yield();
        }
        m.met = true;
      },
      &meeting);
  return meeting.met;
}

}  // namespace

bool PoolSize::is_due(int run) {
  if (run < kQuestions) return true;
  int due = 4;
  while (due < run) due *= 4;
  return due == run;
}

int PoolSize::threads(const Parallel& pool, std::chrono::microseconds patience) {
  if (pool.threads <= 1 || several_.load(std::memory_order_relaxed)) return pool.threads;
  const int run = runs_.fetch_add(1, std::memory_order_relaxed);
  if (run == kPeriod) runs_.store(kPeriod / 4 + 1, std::memory_order_relaxed);
  if (is_due(run) && tasks_meet(pool, patience)) {
    several_.store(true, std::memory_order_relaxed);
    return pool.threads;
  }
  return run + 1 < kQuestions ? pool.threads : 1;
}

}  // namespace ortconv

// Whether a pool has more than one thread is found out.
#include "ops/pool_size.h"

#include <chrono>
#include <thread>

#include "base/parallel.h"
#include "testing/test.h"

namespace ortconv {
namespace {

// A pool that claims four threads, and counts what it is given to do.
struct Pool {
  bool concurrent;
  int calls = 0;

  Parallel parallel() {
    return {this,
            [](void* context, int64_t n, void (*fn)(void*, int64_t), void* arg) {
              Pool& pool = *static_cast<Pool*>(context);
              ++pool.calls;
              if (!pool.concurrent) {
                for (int64_t i = 0; i < n; ++i) fn(arg, i);
                return;
              }
              std::thread other([=] { fn(arg, 1); });
              fn(arg, 0);
              other.join();
            },
            4};
  }
};

TEST(one_thread_is_believed_after_three_runs_and_asked_ever_more_rarely) {
  Pool pool{false};
  PoolSize size;
  const int due[] = {0, 1, 2, 4, 16, 64, 256, 1024, 1024 + 768, 1024 + 2 * 768};
  int asked = 0;
  for (int run = 0; run <= 1024 + 2 * 768; ++run) {
    const int expected = run < 2 ? 4 : 1;  // not known yet
    EXPECT(size.threads(pool.parallel()) == expected, "run ", run);
    if (run == due[asked]) ++asked;
    EXPECT(pool.calls == asked, pool.calls, " questions until run ", run);
  }
}

TEST(several_threads_are_found_also_when_they_were_late) {
  Pool pool{false};
  PoolSize size;
  for (int run = 0; run < 100; ++run) size.threads(pool.parallel());
  pool.concurrent = true;
  int run = 100;
  while (run < 2000 && size.threads(pool.parallel(), std::chrono::hours(1)) == 1) ++run;
  EXPECT(run < 2000, "never found");
  const int calls = pool.calls;
  for (int i = 0; i < 2000; ++i) EXPECT(size.threads(pool.parallel()) == 4, "forgotten");
  EXPECT(pool.calls == calls, "asked again");
}

TEST(nothing_is_asked_of_one_thread) {
  Pool pool{false};
  PoolSize size;
  Parallel one = pool.parallel();
  one.threads = 1;
  EXPECT(size.threads(one) == 1, "");
  EXPECT(size.threads(serial()) == 1, "");
  EXPECT(pool.calls == 0, pool.calls, " questions");
}

}  // namespace
}  // namespace ortconv

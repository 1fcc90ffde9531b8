// Every work item is taken once, in ranges that begin large and end small.
#include "base/ranges.h"

#include <algorithm>
#include <thread>
#include <vector>

#include "base/parallel.h"
#include "testing/test.h"

namespace ortconv {
namespace {

struct Range {
  int64_t begin, end;
};

std::vector<Range> taken(int64_t count, int64_t granule, int64_t least, int64_t threads) {
  Ranges ranges(count, granule, least, threads);
  std::vector<Range> all;
  for (Range r{}; ranges.take(&r.begin, &r.end);) all.push_back(r);
  return all;
}

TEST(ranges_follow_each_other_and_cover_all_items) {
  for (const int64_t threads : {1, 2, 3, 16}) {
    for (const int64_t count : {0, 1, 2, 5, 31, 1000}) {
      for (const int64_t granule : {1, 2, 7, 74, 2000}) {
        for (const int64_t least : {int64_t{1}, (granule + 3) / 4}) {
          int64_t at = 0;
          for (const Range& r : taken(count, granule, least, threads)) {
            EXPECT(r.begin == at && r.end > r.begin, count, " items: [", r.begin, ", ", r.end, ") after ", at);
            // A range in more granules than one ends with one of them, or with all.
            const bool crosses = r.begin / granule != (r.end - 1) / granule;
            EXPECT(!crosses || r.end % granule == 0 || r.end == count, "[", r.begin, ", ", r.end, ") of ", granule);
            at = r.end;
          }
          EXPECT(at == count, "[0, ", at, ") of ", count, ", ", threads, " threads, granules of ", granule);
        }
      }
    }
  }
}

TEST(ranges_of_copies_cover_all_numbers_and_are_not_short) {
  for (const int threads : {1, 2, 16}) {
    for (const int64_t count : {0, 1, 99, 100, 199, 200, 1234, 100000}) {
      for (const int64_t least : {1, 7, 100}) {
        Parallel parallel = serial();
        parallel.threads = threads;
        int64_t at = 0, ranges = 0;
        for_each_range(parallel, count, least, [&](int64_t begin, int64_t end) {
          EXPECT(begin == at, count, " numbers: from ", begin, " after ", at);
          EXPECT(end - begin >= std::min(least, count), count, " numbers: [", begin, ", ", end, ")");
          at = end, ++ranges;
        });
        EXPECT(at == count && ranges <= 4 * threads, "[0, ", at, ") of ", count, " in ", ranges, " ranges");
        EXPECT(ranges > 1 || count < 2 * least, count, " numbers, at least ", least, ", in one range");
      }
    }
  }
}

TEST(one_thread_takes_everything_at_once) { EXPECT(taken(1000, 7, 1, 1).size() == 1, "cut up for nobody"); }

TEST(a_thread_leaves_enough_for_the_others_until_the_end) {
  for (const int64_t threads : {2, 4}) {
    const std::vector<Range> all = taken(10000, 10, 5, threads);
    for (const Range& r : all) {
      const int64_t left = 10000 - r.begin;
      EXPECT(r.end - r.begin <= left / threads || r.end - r.begin <= 5, "[", r.begin, ", ", r.end, ")");
    }
    EXPECT(all.back().end - all.back().begin <= 5, "the last range is ", all.back().end - all.back().begin);
    EXPECT(all.size() < 80, all.size(), " ranges");
  }
}

TEST(granules_may_begin_anywhere) {
  Ranges ranges(100, 1, 1, 2);
  const auto start_of = [](int64_t item) { return item < 30 ? 0 : item < 55 ? 30 : 55; };
  Range r{};
  EXPECT(ranges.take(&r.begin, &r.end, start_of) && r.end == 30, r.end);  // 37 without granules
  EXPECT(ranges.take(&r.begin, &r.end, start_of) && r.end == 55, r.end);  // 56
  EXPECT(ranges.take(&r.begin, &r.end, start_of) && r.end == 71, r.end);
}

TEST(threads_share_the_items) {
  constexpr int kThreads = 4, kItems = 20000;
  std::vector<std::atomic<int>> times(kItems);
  Ranges ranges(kItems, 3, 1, 1000);  // many small ranges
  std::vector<std::thread> pool;
  for (int i = 0; i < kThreads; ++i) {
    pool.emplace_back([&] {
      for (Range r{}; ranges.take(&r.begin, &r.end);) {
        for (int64_t item = r.begin; item < r.end; ++item) ++times[item];
      }
    });
  }
  for (std::thread& thread : pool) thread.join();
  int wrong = 0;
  for (const auto& count : times) wrong += count != 1;
  EXPECT(wrong == 0, wrong, " items were not taken once");
}

}  // namespace
}  // namespace ortconv

// Ranges of work items, taken by threads as they become free.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace ortconv {

// Hands out the work items [0, count): in large ranges at first, as a thread prepares something for each, then in
// smaller ones, so that all threads end at about the same time. Items of one granule share what is prepared: a range
// that reaches into another granule ends where that begins. Any number of threads may take ranges.
class Ranges {
 public:
  // `least` items are worth a range.
  Ranges(int64_t count, int64_t granule, int64_t least, int64_t threads)
      : count_(count), granule_(granule), least_(least), threads_(threads) {}

  // Of granules that begin at other items: start_of(item) is where that of an item does.
  template <class StartOf>
  bool take(int64_t* begin, int64_t* end, StartOf start_of) {
    int64_t from = next_.load(std::memory_order_relaxed), to;
    do {
      if (from >= count_) return false;
      const int64_t left = count_ - from;
      // Three quarters of an even share of what is left: another thread may be that much slower.
      const int64_t share = threads_ == 1 ? left : std::max(left * 3 / (4 * threads_), least_);
      to = from + std::min(share, left);
      const int64_t start = to == count_ ? from : start_of(to);
      if (start > from) to = start;
    } while (!next_.compare_exchange_weak(from, to, std::memory_order_relaxed));
    *begin = from, *end = to;
    return true;
  }

  // The next range; false: there is none.
  bool take(int64_t* begin, int64_t* end) {
    return take(begin, end, [this](int64_t item) { return item / granule_ * granule_; });
  }

  // Calls fn(item) for the items of every range that it takes, until there is none.
  template <class Fn>
  void for_each_item(Fn fn) {
    for (int64_t item = 0, end = 0; item < end || take(&item, &end); ++item) fn(item);
  }

 private:
  const int64_t count_, granule_, least_, threads_;
  std::atomic<int64_t> next_{0};
};

}  // namespace ortconv

// A small table that forgets what was not used for longest.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace ortconv {

// Any number of threads may use it. What was found stays alive for as long as it is held.
template <class Key, class Value>
class RecentlyUsed {
 public:
  explicit RecentlyUsed(size_t capacity) : capacity_(capacity) {}

  // Null when there is none. The key may be of another type that a Key can be compared with.
  template <class Sought>
  std::shared_ptr<const Value> find(const Sought& key) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto entry = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& e) { return e.key == key; });
    if (entry == entries_.end()) return nullptr;
    entry->used = ++clock_;
    return entry->value;
  }

  // In place of what the key had before.
  void insert(Key key, std::shared_ptr<const Value> value) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto has_key = [&](const Entry& e) { return e.key == key; };
    entries_.erase(std::remove_if(entries_.begin(), entries_.end(), has_key), entries_.end());
    if (entries_.size() == capacity_) {
      const auto older = [](const Entry& a, const Entry& b) { return a.used < b.used; };
      entries_.erase(std::min_element(entries_.begin(), entries_.end(), older));
    }
    entries_.push_back({std::move(key), std::move(value), ++clock_});
  }

 private:
  struct Entry {
    Key key;
    std::shared_ptr<const Value> value;
    uint64_t used;
  };

  const size_t capacity_;
  std::mutex mutex_;
  uint64_t clock_ = 0;
  std::vector<Entry> entries_;
};

}  // namespace ortconv

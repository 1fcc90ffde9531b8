// Hints about memory that is used soon, for runs that are too short for the CPU's own prefetcher. Compilers without
// such a builtin function ignore them.
#pragma once

#include <cstdint>

namespace ortconv::kernels {

enum class Cache { kL1, kL2 };

// Elements that are read, not in this order.
template <Cache kCache = Cache::kL1, class T>
void prefetch([[maybe_unused]] const T* from, [[maybe_unused]] int64_t count) {
#if defined(__GNUC__)
  constexpr int64_t kLine = 64 / static_cast<int64_t>(sizeof(T));
  for (int64_t i = 0; i < count; i += kLine) __builtin_prefetch(from + i, 0, kCache == Cache::kL1 ? 3 : 2);
#endif
}

// The line of an element that is written.
template <class T>
void prefetch_to_write([[maybe_unused]] const T* to) {
#if defined(__GNUC__)
  __builtin_prefetch(to, 1);
#endif
}

}  // namespace ortconv::kernels

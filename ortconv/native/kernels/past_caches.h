// Writing memory past the caches, which need not fetch lines that are overwritten whole.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/write_lines/write_lines.h"

#if defined(__x86_64__) || defined(_M_X64)
#include <emmintrin.h>
#endif

namespace ortconv::kernels {

template <class T>
constexpr int64_t kCacheLine = kLineBytes / sizeof(T);  // in numbers

// How many numbers lie before the next line.
template <class T>
int64_t until_line(const T* out) {
  return static_cast<int64_t>((0 - reinterpret_cast<uintptr_t>(out)) % kLineBytes / sizeof(T));
}

// To be called before other threads learn of what was written; the thread itself may write the same memory at once.
inline void finish_past_caches() {
#if defined(__x86_64__) || defined(_M_X64)
  _mm_sfence();
#endif
}

// Writes memory from its beginning to its end past the caches. Numbers are held until their line is whole: a part of a
// line is fetched before it is written, and what is written after waits for that. Only the first line and the last one
// are written in parts.
template <class T>
class PastCaches {
 public:
  // `held` has room for a line beyond what is added at once.
  PastCaches(const WriteLinesKernel& kernel, T* held) : kernel_(kernel), held_(held) {}

  // Where the numbers are to be put that go to `out` and on.
  T* room(T* out) {
    if (out != out_ + count_) finish(), out_ = out;
    return held_ + count_;
  }
  // So many have been put there.
  void add(int64_t count) {
    count_ += count;
    const int64_t part = until_line(out_);
    if (part > count_) return;
    write(part);
    const int64_t whole = count_ / kCacheLine<T> * kCacheLine<T>;
    write_lines(false, whole);
    advance(whole);
  }
  // Numbers that are all the same.
  void fill(T* out, int64_t count, T value) {
    T* const to = room(out);
    const int64_t part = std::min(until_line(out), count);
    std::fill_n(to, part, value);
    add(part);
    if (count == part) return;
    std::fill_n(held_, kCacheLine<T>, value);
    const int64_t whole = (count - part) / kCacheLine<T> * kCacheLine<T>;
    write_lines(true, whole);
    out_ += whole, count_ = count - part - whole;
  }
  void finish() { write(count_); }

 private:
  void write(int64_t count) {
    std::copy_n(held_, count, out_);
    advance(count);
  }
  void write_lines(bool again, int64_t count) {
    kernel_.run({held_, again, count * static_cast<int64_t>(sizeof(T)), out_});
  }
  void advance(int64_t count) {
    std::copy(held_ + count, held_ + count_, held_);
    out_ += count, count_ -= count;
  }

  const WriteLinesKernel& kernel_;
  T* const held_;
  T* out_ = nullptr;
  int64_t count_ = 0;
};

}  // namespace ortconv::kernels

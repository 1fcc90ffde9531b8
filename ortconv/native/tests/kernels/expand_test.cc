// Every expand kernel this CPU has: exact, whatever the runs, the gaps and the end of the row, at once and in parts.
#include "kernels/expand/expand.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <random>
#include <vector>

#include "kernels/expand/steps.h"
#include "testing/each_kernel.h"

using namespace ortconv;
using namespace ortconv::kernels;

namespace {

int failures = 0, checked = 0;
std::mt19937 random_numbers(7);

int64_t draw(int64_t least, int64_t most) {
  return std::uniform_int_distribution<int64_t>(least, most)(random_numbers);
}

// Where each number of dst comes from; -1: a gap.
std::vector<int64_t> draw_row(int64_t size, int64_t sums) {
  std::vector<int64_t> row(static_cast<size_t>(size), -1);
  const int64_t slots = draw(1, 4), step = draw(1, 9);
  const bool sparse = draw(0, 3) == 0;
  const int64_t line = draw(0, 1) == 0 ? 50 : 900;
  for (int64_t i = 0; i < size; ++i) {
    const int64_t slot = i % step;
    if (slot >= slots || (sparse && i / line % 2 == 1)) continue;
    row[static_cast<size_t>(i)] = (slot * sums / slots + i / step) % sums;
  }
  return row;
}

// Small integers: every type holds them and their sums.
template <class T>
void check(const ExpandKernel& kernel, int64_t size, bool in_parts) {
  const int64_t sums = draw(1, 300), listed = size + draw(0, 1) * draw(0, 60);
  const std::vector<int64_t> row = draw_row(listed, sums);
  ExpandSteps list;
  for (int64_t i = 0; i < listed; ++i) {
    if (row[static_cast<size_t>(i)] >= 0) list.add(i, row[static_cast<size_t>(i)], 1);
  }
  const std::vector<ExpandStep> steps = list.finish(listed);
  std::vector<Sum<T>> src(static_cast<size_t>(sums + kExpandWidth));
  for (Sum<T>& x : src) x = static_cast<Sum<T>>(draw(-120, 120));
  T guard;
  std::memset(static_cast<void*>(&guard), 0xff, sizeof guard);
  constexpr int64_t kAround = 20;
  std::vector<T> memory(static_cast<size_t>(size + 2 * kAround), guard);
  T* const dst = memory.data() + kAround;
  const auto expand = [&](const std::vector<ExpandStep>& some, int64_t begin, int64_t count) {
    kernel.to<T>()({src.data(), some.data(), static_cast<int64_t>(some.size()), 3, 5, dst + begin, count});
  };
  if (in_parts) {
    int64_t begin = 0;
    for (const ExpandPart& part : cut_steps(steps)) {
      const int64_t count = std::min(part.rows * kExpandWidth, size - begin);
      if (count <= 0) break;
      if (part.rows > kNearRows && !part.is_gap()) ++failures, std::printf("FAIL a part of too many rows\n");
      expand(part.steps, begin, count);
      begin += count;
    }
  } else {
    expand(steps, 0, size);
  }
  ++checked;
  for (int64_t at = -kAround; at < size + kAround; ++at) {
    T want = guard;
    if (at >= 0 && at < size) {
      const int64_t from = row[static_cast<size_t>(at)];
      round_to(&want, from < 0 ? Sum<T>(5) : src[static_cast<size_t>(from)] + 3);
    }
    if (std::memcmp(&memory[static_cast<size_t>(at + kAround)], &want, sizeof want) == 0) continue;
    ++failures;
    std::printf("FAIL %s %zu bytes, %ld numbers, at %ld\n", kernel.name, sizeof want, static_cast<long>(size),
                static_cast<long>(at));
    return;
  }
}

}  // namespace

int main() {
  test::for_each_kernel(get_expand_kernel, [](const ExpandKernel& kernel) {
    for (int i = 0; i < 2000; ++i) {
      const int64_t size = draw(0, i % 100 == 0 ? 20000 : i % 10 == 0 ? 2000 : 100);
      for (const bool in_parts : {false, true}) {
        check<float>(kernel, size, in_parts);
        check<double>(kernel, size, in_parts);
        check<Float16>(kernel, size, in_parts);
        check<Bfloat16>(kernel, size, in_parts);
      }
    }
  });
  std::printf("%d runs, %d failures\n", checked, failures);
  return failures == 0 ? 0 : 1;
}

// Every dots kernel this CPU has: exact, whatever the counts, rows and pitches.
#include "kernels/dots/dots.h"

#include <cstdio>
#include <limits>
#include <vector>

#include "testing/each_kernel.h"

using namespace ortconv;
using namespace ortconv::kernels;

namespace {

int failures = 0, checked = 0;

// Small integers, whose sums are exact; NaN around what may be read.
template <class T>
void check(const DotsKernel& kernel, int64_t count, int64_t rows) {
  const T nan = std::numeric_limits<T>::quiet_NaN();
  const int64_t pitch = count + rows % 3;
  std::vector<T> a(static_cast<size_t>(count) + 20, nan), b(static_cast<size_t>(rows * pitch) + 20, nan);
  for (int64_t k = 0; k < count; ++k) a[static_cast<size_t>(k)] = static_cast<T>(k * 7 % 23 - 11);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t k = 0; k < count; ++k) b[static_cast<size_t>(r * pitch + k)] = static_cast<T>((r + k) * 5 % 19 - 9);
  }
  std::vector<T> out(static_cast<size_t>(rows) + 1, 77);
  kernel.to<T>()({a.data(), b.data(), pitch, count, rows, out.data(), a.data()});
  ++checked;
  for (int64_t r = 0; r <= rows; ++r) {
    T want = r < rows ? 0 : 77;
    for (int64_t k = 0; k < count && r < rows; ++k) {
      want += a[static_cast<size_t>(k)] * b[static_cast<size_t>(r * pitch + k)];
    }
    if (out[static_cast<size_t>(r)] == want) continue;
    ++failures;
    std::printf("FAIL %s %zu bytes count %ld rows %ld at %ld\n", kernel.name, sizeof(T), static_cast<long>(count),
                static_cast<long>(rows), static_cast<long>(r));
    return;
  }
}

}  // namespace

int main() {
  test::for_each_kernel(get_dots_kernel, [](const DotsKernel& kernel) {
    for (int64_t count = 0; count < 140; ++count) {
      for (int64_t rows = 0; rows < 10; ++rows) {
        check<float>(kernel, count, rows);
        check<double>(kernel, count, rows);
      }
    }
  });
  std::printf("%d runs, %d failures\n", checked, failures);
  return failures == 0 ? 0 : 1;
}

// Every add_rows kernel this CPU has: exact, and nothing but the rows is written, whatever their lengths and distances.
#include "kernels/add_rows/add_rows.h"

#include <cstdio>
#include <vector>

#include "testing/each_kernel.h"

using namespace ortconv;
using namespace ortconv::kernels;

namespace {

int failures = 0, checked = 0;

template <class T>
void check(const AddRowsKernel& kernel, int64_t rows, int64_t length, int64_t src_gap, int64_t dst_gap) {
  constexpr int64_t kAround = 20;
  const int64_t src_step = length + src_gap, dst_step = length + dst_gap;
  std::vector<T> src(static_cast<size_t>(rows * src_step)), dst(static_cast<size_t>(rows * dst_step + 2 * kAround));
  for (size_t i = 0; i < src.size(); ++i) src[i] = static_cast<T>(i * 7 % 1009);
  for (size_t i = 0; i < dst.size(); ++i) dst[i] = static_cast<T>(i * 5 % 907);
  std::vector<T> want = dst;
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t i = 0; i < length; ++i) {
      want[static_cast<size_t>(kAround + row * dst_step + i)] += src[static_cast<size_t>(row * src_step + i)];
    }
  }
  kernel.run<T>({rows, length, src.data(), src_step, dst.data() + kAround, dst_step});
  ++checked;
  if (dst == want) return;
  ++failures;
  std::printf("FAIL %s %zu bytes rows %ld length %ld gaps %ld %ld\n", kernel.name, sizeof(T), static_cast<long>(rows),
              static_cast<long>(length), static_cast<long>(src_gap), static_cast<long>(dst_gap));
}

}  // namespace

int main() {
  test::for_each_kernel(get_add_rows_kernel, [](const AddRowsKernel& kernel) {
    for (int64_t length = 0; length < 80; ++length) {
      for (const int64_t rows : {0, 1, 2, 7}) {
        for (const int64_t gap : {0, 1, 13}) {
          check<float>(kernel, rows, length, gap, 2 * gap);
          check<double>(kernel, rows, length, gap, 2 * gap);
        }
      }
    }
  });
  std::printf("%d runs, %d failures\n", checked, failures);
  return failures == 0 ? 0 : 1;
}

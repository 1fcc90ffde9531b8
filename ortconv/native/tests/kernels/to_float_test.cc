// Every widening kernel this CPU has: every value there is, every length, and nothing beyond it is read or written.
#include "kernels/to_float/to_float.h"

#include <cstdio>
#include <cstring>
#include <memory>
#include <vector>

#include "base/dtype.h"
#include "testing/each_kernel.h"

using namespace ortconv;
using namespace ortconv::kernels;

namespace {

int failures = 0, checked = 0;

template <class T>
bool same(T from, float found) {
  const uint32_t want = bits_of(to_float(from));
  const bool is_nan = (want & 0x7fffffffu) > 0x7f800000u;
  return bits_of(found) == want || (is_nan && found != found);  // conversions may quieten a NaN
}

template <class T>
void check(const ToFloatKernel& kernel, int64_t first, int64_t n) {
  constexpr float kGuard = -12345.0f;
  const std::unique_ptr<T[]> src(new T[n]);  // exactly what may be read
  for (int64_t i = 0; i < n; ++i) src[i].bits = static_cast<uint16_t>(first + i);
  std::vector<float> dst(n + 16, kGuard);
  kernel.run(src.get(), n, dst.data());
  ++checked;
  bool right = true;
  for (int64_t i = 0; i < n; ++i) right = right && same(src[i], dst[i]);
  for (int64_t i = n; i < n + 16; ++i) right = right && dst[i] == kGuard;
  if (right) return;
  ++failures;
  std::printf("FAIL %s n %ld from %04lx\n", kernel.name, static_cast<long>(n), static_cast<long>(first));
}

}  // namespace

int main() {
  test::for_each_kernel(get_to_float_kernel, [](const ToFloatKernel& kernel) {
    check<Float16>(kernel, 0, 1 << 16);
    check<Bfloat16>(kernel, 0, 1 << 16);
    for (int64_t n = 0; n <= 70; ++n) {
      check<Float16>(kernel, 0x3ff0, n);
      check<Bfloat16>(kernel, 0x3ff0, n);
    }
  });
  std::printf("%d runs, %d failures\n", checked, failures);
  return failures == 0 ? 0 : 1;
}

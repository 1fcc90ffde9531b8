// Every transpose kernel this CPU has: exact, whatever the sizes, and nothing beyond them is read or written.
#include "kernels/transpose/transpose.h"

#include <cstdio>
#include <cstring>
#include <memory>
#include <vector>

#include "testing/each_kernel.h"

using namespace ortconv;
using namespace ortconv::kernels;

namespace {

int failures = 0, checked = 0;

// Small integers: every type holds them and their sums.
template <class T>
void check(const TransposeKernel& kernel, int64_t rows, int64_t cols, int64_t gap, bool with_bias) {
  T guard;
  std::memset(static_cast<void*>(&guard), 0xff, sizeof guard);
  const int64_t src_stride = cols + gap, dst_stride = rows + gap;
  // As large as what may be read, so that a sanitizer sees more being read.
  const int64_t src_size = (rows - 1) * src_stride + cols;
  const std::unique_ptr<Sum<T>[]> src(new Sum<T>[src_size]), bias(new Sum<T>[rows]);
  for (int64_t i = 0; i < src_size; ++i) src[i] = static_cast<Sum<T>>(i % 199);
  for (int64_t i = 0; i < rows; ++i) bias[i] = static_cast<Sum<T>>(i + 1);
  std::vector<T> dst(cols * dst_stride + 32, guard);
  kernel.to<T>()(src.get(), src_stride, rows, cols, with_bias ? bias.get() : nullptr, dst.data(), dst_stride);
  ++checked;
  for (int64_t at = 0; at < static_cast<int64_t>(dst.size()); ++at) {
    const int64_t j = at / dst_stride, i = at % dst_stride;
    T want = guard;
    if (i < rows && j < cols) round_to(&want, src[i * src_stride + j] + (with_bias ? bias[i] : 0));
    if (std::memcmp(&dst[at], &want, sizeof want) != 0) {
      ++failures;
      std::printf("FAIL %s %zu bytes rows %ld cols %ld gap %ld at %ld\n", kernel.name, sizeof want,
                  static_cast<long>(rows), static_cast<long>(cols), static_cast<long>(gap), static_cast<long>(at));
      return;
    }
  }
}

template <class T>
void check_from(const TransposeKernel& kernel, int64_t rows, int64_t cols, int64_t gap) {
  const int64_t src_stride = cols + gap, dst_stride = rows + gap;
  const int64_t src_size = (rows - 1) * src_stride + cols;
  const std::unique_ptr<T[]> src(new T[src_size]);
  for (int64_t i = 0; i < src_size; ++i) round_to(&src[i], static_cast<Sum<T>>(i % 199));
  const Sum<T> guard = -1;
  std::vector<Sum<T>> dst(cols * dst_stride + 32, guard);
  kernel.from<T>()(src.get(), src_stride, rows, cols, dst.data(), dst_stride);
  ++checked;
  for (int64_t at = 0; at < static_cast<int64_t>(dst.size()); ++at) {
    const int64_t j = at / dst_stride, i = at % dst_stride;
    const Sum<T> want = i < rows && j < cols ? widen(src[i * src_stride + j]) : guard;
    if (dst[at] != want) {
      ++failures;
      std::printf("FAIL %s from %zu bytes rows %ld cols %ld gap %ld at %ld\n", kernel.name, sizeof(T),
                  static_cast<long>(rows), static_cast<long>(cols), static_cast<long>(gap), static_cast<long>(at));
      return;
    }
  }
}

// Without a bias the bits of floats are kept, those of a signaling NaN and of minus zero too.
void check_bits(const TransposeKernel& kernel) {
  const uint32_t bits[] = {0x7f800001u, 0x80000000u, 0x00000001u, 0xffbfffffu};
  std::vector<uint32_t> src(16 * 16), dst(16 * 16);
  for (size_t i = 0; i < src.size(); ++i) src[i] = bits[i % 4] + static_cast<uint32_t>(i / 4 << 4);
  kernel.to<float>()(reinterpret_cast<const float*>(src.data()), 16, 16, 16, nullptr,
                     reinterpret_cast<float*>(dst.data()), 16);
  ++checked;
  for (size_t i = 0; i < src.size(); ++i) {
    if (dst[i % 16 * 16 + i / 16] == src[i]) continue;
    ++failures;
    std::printf("FAIL %s changes %08x\n", kernel.name, src[i]);
    return;
  }
}

}  // namespace

int main() {
  test::for_each_kernel(get_transpose_kernel, [](const TransposeKernel& kernel) {
    for (int64_t rows = 1; rows <= 35; ++rows) {
      for (int64_t cols = 1; cols <= 35; ++cols) {
        for (const int64_t gap : {0, 3}) {
          check_from<float>(kernel, rows, cols, gap);
          check_from<double>(kernel, rows, cols, gap);
          check_from<Float16>(kernel, rows, cols, gap);
          check_from<Bfloat16>(kernel, rows, cols, gap);
          for (const bool with_bias : {false, true}) {
            check<float>(kernel, rows, cols, gap, with_bias);
            check<double>(kernel, rows, cols, gap, with_bias);
            check<Float16>(kernel, rows, cols, gap, with_bias);
            check<Bfloat16>(kernel, rows, cols, gap, with_bias);
          }
        }
      }
    }
    check_bits(kernel);
  });
  std::printf("%d runs, %d failures\n", checked, failures);
  return failures == 0 ? 0 : 1;
}

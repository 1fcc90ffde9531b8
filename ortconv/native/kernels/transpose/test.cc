// Every transpose kernel this CPU has: exact, whatever the sizes, and nothing beyond them is read or written.
#include <cstdio>
#include <memory>
#include <vector>

#include "kernels/transpose/transpose.h"

using namespace ortconv;
using namespace ortconv::kernels;

namespace {

int failures = 0, checked = 0;

void check(const TransposeKernel& kernel, int64_t rows, int64_t cols, int64_t gap, bool with_bias) {
  constexpr float kGuard = -1.0f;
  const int64_t src_stride = cols + gap, dst_stride = rows + gap;
  // As large as what may be read, so that a sanitizer sees more being read.
  const int64_t src_size = (rows - 1) * src_stride + cols;
  const std::unique_ptr<float[]> src(new float[src_size]), bias(new float[rows]);
  for (int64_t i = 0; i < src_size; ++i) src[i] = static_cast<float>(i);
  for (int64_t i = 0; i < rows; ++i) bias[i] = 0.5f * static_cast<float>(i + 1);
  std::vector<float> dst(cols * dst_stride + 16, kGuard);
  kernel.run(src.get(), src_stride, rows, cols, with_bias ? bias.get() : nullptr, dst.data(), dst_stride);
  ++checked;
  for (int64_t at = 0; at < static_cast<int64_t>(dst.size()); ++at) {
    const int64_t j = at / dst_stride, i = at % dst_stride;
    float want = kGuard;
    if (i < rows && j < cols) want = src[i * src_stride + j] + (with_bias ? bias[i] : 0.0f);
    if (dst[at] != want) {
      ++failures;
      std::printf("FAIL %s rows %ld cols %ld gap %ld at %ld\n", kernel.name, static_cast<long>(rows),
                  static_cast<long>(cols), static_cast<long>(gap), static_cast<long>(at));
      return;
    }
  }
}

}  // namespace

int main() {
  const ArchFlags& host = ArchFlags::host();
  ArchFlags avx2;
  avx2.avx2_fma = host.avx2_fma;
  const TransposeKernel* seen = nullptr;
  for (const ArchFlags& arch : {ArchFlags{}, avx2, host}) {
    const TransposeKernel& kernel = get_transpose_kernel(arch);
    if (&kernel == seen) continue;
    seen = &kernel;
    for (int64_t rows = 1; rows <= 35; ++rows) {
      for (int64_t cols = 1; cols <= 35; ++cols) {
        for (const int64_t gap : {0, 3}) {
          for (const bool with_bias : {false, true}) check(kernel, rows, cols, gap, with_bias);
        }
      }
    }
    std::printf("%s\n", kernel.name);
  }
  if (!host.avx2_fma) std::printf("SKIP avx2: this CPU lacks AVX2 or FMA\n");
  if (!host.avx512) std::printf("SKIP avx512: this CPU lacks AVX-512\n");
  std::printf("%d runs, %d failures\n", checked, failures);
  return failures == 0 ? 0 : 1;
}

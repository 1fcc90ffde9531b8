// Every interleave kernel this CPU has: exact, whatever the phases, lengths, alignment and way to store.
#include <cstdio>
#include <vector>

#include "kernels/interleave/interleave.h"

using namespace ortconv;
using namespace ortconv::kernels;

namespace {

int failures = 0, checked = 0;

void check(const InterleaveKernel& kernel, int64_t phases, int64_t n, int64_t misalignment, Store store) {
  constexpr float kGuard = -1.0f, kBias = 0.5f;
  std::vector<float> src(phases * (n + 1));
  for (size_t i = 0; i < src.size(); ++i) src[i] = static_cast<float>(i);
  std::vector<const float*> rows;
  for (int64_t p = 0; p < phases; ++p) rows.push_back(src.data() + p * (n + 1));
  alignas(64) static float memory[4096];
  for (float& x : memory) x = kGuard;
  float* dst = memory + 16 + misalignment;
  kernel.run(rows.data(), phases, n, kBias, dst, store);
  kernel.fence();
  ++checked;
  for (int64_t at = -16; at < phases * n + 16; ++at) {
    const bool inside = at >= 0 && at < phases * n;
    const float want = inside ? rows[at % phases][at / phases] + kBias : kGuard;
    if (dst[at] != want) {
      ++failures;
      std::printf("FAIL %s phases %ld n %ld misalignment %ld at %ld\n", kernel.name, static_cast<long>(phases),
                  static_cast<long>(n), static_cast<long>(misalignment), static_cast<long>(at));
      return;
    }
  }
}

}  // namespace

int main() {
  const ArchFlags& host = ArchFlags::host();
  ArchFlags avx2;
  avx2.avx2_fma = host.avx2_fma;
  const InterleaveKernel* seen = nullptr;
  for (const ArchFlags& arch : {ArchFlags{}, avx2, host}) {
    const InterleaveKernel& kernel = get_interleave_kernel(arch);
    if (&kernel == seen) continue;
    seen = &kernel;
    for (int64_t phases = 1; phases <= 17; ++phases) {
      for (int64_t n = 0; n <= 70; ++n) {
        for (const int64_t misalignment : {0, 1, 2, 4, 7, 8, 15}) {
          for (const Store store : {Store::kCached, Store::kStream}) check(kernel, phases, n, misalignment, store);
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

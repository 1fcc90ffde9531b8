// Every interleave kernel this CPU has: exact, whatever the phases, lengths, alignment and way to store.
#include "kernels/interleave/interleave.h"

#include <cstdio>
#include <cstring>
#include <vector>

using namespace ortconv;
using namespace ortconv::kernels;

namespace {

int failures = 0, checked = 0;

// Small integers: every type holds them and their sums.
template <class T>
void check(const InterleaveKernel& kernel, int64_t phases, int64_t n, int64_t misalignment, Store store) {
  constexpr int64_t kChannels = 2;
  T guard;
  std::memset(static_cast<void*>(&guard), 0xff, sizeof guard);
  const Sum<T> bias[kChannels] = {1, 2};
  const int64_t src_stride = phases * (n + 1), dst_stride = phases * n + misalignment % 3;
  std::vector<Sum<T>> src(kChannels * src_stride);
  for (size_t i = 0; i < src.size(); ++i) src[i] = static_cast<Sum<T>>(i % 251);
  std::vector<const Sum<T>*> rows;
  for (int64_t p = 0; p < phases; ++p) rows.push_back(src.data() + p * (n + 1));
  alignas(64) static T memory[6000];
  for (T& x : memory) x = guard;
  T* dst = memory + 32 + misalignment;
  kernel.to<T>()({rows.data(), src_stride, kChannels, n, phases, bias, dst, dst_stride, store});
  kernel.fence();
  ++checked;
  for (int64_t at = -32; at < kChannels * dst_stride + 32; ++at) {
    T want = guard;
    for (int64_t c = 0; c < kChannels; ++c) {
      const int64_t i = at - c * dst_stride;
      if (i < 0 || i >= phases * n) continue;
      round_to(&want, src[c * src_stride + i % phases * (n + 1) + i / phases] + bias[c]);
    }
    if (std::memcmp(&dst[at], &want, sizeof want) != 0) {
      ++failures;
      std::printf("FAIL %s %zu bytes phases %ld n %ld misalignment %ld at %ld\n", kernel.name, sizeof want,
                  static_cast<long>(phases), static_cast<long>(n), static_cast<long>(misalignment),
                  static_cast<long>(at));
      return;
    }
  }
}

// Rounding as base/float16.h has it: ties, subnormals, overflow, infinities and NaN, either sign.
template <class T>
void check_rounding(const InterleaveKernel& kernel) {
  std::vector<float> src;
  for (uint64_t bits = 0; bits < uint64_t{1} << 32; bits += 0x800) {
    for (const int near : {-1, 0, 1, 0x7ff}) src.push_back(float_of(static_cast<uint32_t>(bits + near)));
  }
  const float* row = src.data();
  std::vector<T> dst(src.size());
  kernel.to<T>()({&row, 0, 1, static_cast<int64_t>(src.size()), 1, nullptr, dst.data(), 0, Store::kCached});
  ++checked;
  for (size_t i = 0; i < src.size(); ++i) {
    T want;
    round_to(&want, src[i]);
    if (dst[i].bits == want.bits) continue;
    ++failures;
    std::printf("FAIL %s rounds %08x to %04x, not %04x\n", kernel.name, bits_of(src[i]), dst[i].bits, want.bits);
    return;
  }
}

}  // namespace

int main() {
  const ArchFlags& host = ArchFlags::host();
  ArchFlags avx2, avx512;
  avx2.avx2_fma = avx512.avx2_fma = host.avx2_fma;
  avx512.avx512 = host.avx512;
  const InterleaveKernel* seen = nullptr;
  for (const ArchFlags& arch : {ArchFlags{}, avx2, avx512, host}) {
    const InterleaveKernel& kernel = get_interleave_kernel(arch);
    if (&kernel == seen) continue;
    seen = &kernel;
    for (const int64_t phases : {1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 15, 16, 17, 24, 35}) {
      for (int64_t n = 0; n <= 70; ++n) {
        for (const int64_t misalignment : {0, 1, 2, 4, 7, 8, 15}) {
          for (const Store store : {Store::kCached, Store::kStream}) {
            check<float>(kernel, phases, n, misalignment, store);
            check<double>(kernel, phases, n, misalignment, store);
            check<Float16>(kernel, phases, n, misalignment, store);
            check<Bfloat16>(kernel, phases, n, misalignment, store);
          }
        }
      }
    }
    check_rounding<Float16>(kernel);
    check_rounding<Bfloat16>(kernel);
    std::printf("%s\n", kernel.name);
  }
  if (!host.avx2_fma) std::printf("SKIP avx2: this CPU lacks AVX2 or FMA\n");
  if (!host.avx512) std::printf("SKIP avx512: this CPU lacks AVX-512\n");
  std::printf("%d runs, %d failures\n", checked, failures);
  return failures == 0 ? 0 : 1;
}

// Every activation kernel this CPU has: exactly what the definition gives, for special values and every length.
#include "kernels/activate/activate.h"

#include <cstdio>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

using namespace ortconv;
using namespace ortconv::kernels;

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

int failures = 0, checked = 0;

template <class T>
void check(const ActivateKernel& kernel, const Activation& activation, float bias, int64_t n) {
  const float special[] = {0.0f, -0.0f, kInf, -kInf, std::numeric_limits<float>::quiet_NaN(), 1e-40f, -3e-6f, 1e30f};
  std::mt19937 random(static_cast<unsigned>(n));
  std::normal_distribution<float> normal;
  std::vector<float> sums(n + 16, -12345.0f);
  for (int64_t i = 0; i < n; ++i) sums[i] = random() % 3 == 0 ? special[random() % 8] : normal(random);
  const std::vector<float> before = sums;
  kernel.run<T>(activation, bias, n, sums.data());
  ++checked;
  for (int64_t i = 0; i < n + 16; ++i) {
    float want = before[i];
    if (i < n) {
      T element;
      round_to(&element, before[i] + bias);
      want = activation(widen(element));
    }
    const bool both_nan = want != want && sums[i] != sums[i];
    if (both_nan || std::memcmp(&sums[i], &want, sizeof want) == 0) continue;
    ++failures;
    std::printf("FAIL %s %zu bytes n %ld: %g + %g gives %g, not %g\n", kernel.name, sizeof(T), static_cast<long>(n),
                before[i], bias, sums[i], want);
    return;
  }
}

}  // namespace

int main() {
  const ArchFlags& host = ArchFlags::host();
  ArchFlags avx2;
  avx2.avx2_fma = host.avx2_fma;
  const ActivateKernel* seen = nullptr;
  for (const ArchFlags& arch : {ArchFlags{}, avx2, host}) {
    const ActivateKernel& kernel = get_activate_kernel(arch);
    if (&kernel == seen) continue;
    seen = &kernel;
    for (const Activation& a :
         {Activation{0.0f, -kInf, kInf}, Activation{1.0f, 0.0f, kInf}, Activation{0.1f, -kInf, kInf},
          Activation{-2.0f, -1.1f, 0.7f}, Activation{1.0f, 0.0f, 6.0f}}) {
      for (int64_t n = 0; n <= 100; ++n) {
        for (const float bias : {-0.0f, 0.3f}) {
          check<float>(kernel, a, bias, n);
          check<Float16>(kernel, a, bias, n);
          check<Bfloat16>(kernel, a, bias, n);
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

// Every residual kernel this CPU has: exactly what the definition gives, for special values, every length and
// alignment.
#include "kernels/residual/residual.h"

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
std::vector<T> numbers(int64_t count, std::mt19937& random) {
  const float special[] = {0.0f, -0.0f, kInf, -kInf, std::numeric_limits<float>::quiet_NaN(), 1e-40f, -3e-6f, 1e30f};
  std::normal_distribution<float> normal;
  std::vector<T> result(count);
  for (T& x : result) round_to(&x, random() % 8 == 0 ? special[random() % 8] : normal(random));
  return result;
}

template <class T>
T wanted(const Activation* activation, T value, T residual) {
  T sum;
  round_to(&sum, widen(value) + widen(residual));
  if constexpr (!std::is_same_v<T, double>) {
    if (activation != nullptr) round_to(&sum, (*activation)(widen(sum)));
  }
  return sum;
}

template <class T>
bool is_nan(T value) {
  return widen(value) != widen(value);
}

template <class T>
void check(const ResidualKernel& kernel, const Activation* activation, int64_t n) {
  constexpr int64_t kGuards = 64;
  std::mt19937 random(static_cast<unsigned>(n));
  const int64_t skew = n % 17;  // where in a line dst begins
  const std::vector<T> before = numbers<T>(skew + n + kGuards, random), residual = numbers<T>(n, random);
  std::vector<T> dst = before;
  kernel.to<T>()(activation, n, residual.data(), dst.data() + skew);
  ++checked;
  for (int64_t i = 0; i < static_cast<int64_t>(dst.size()); ++i) {
    const bool inside = i >= skew && i < skew + n;
    const T want = inside ? wanted(activation, before[i], residual[i - skew]) : before[i];
    if ((is_nan(dst[i]) && is_nan(want)) || std::memcmp(&dst[i], &want, sizeof want) == 0) continue;
    ++failures;
    std::printf("FAIL %s %zu bytes n %ld element %ld: %g, not %g\n", kernel.name, sizeof(T), static_cast<long>(n),
                static_cast<long>(i), static_cast<double>(widen(dst[i])), static_cast<double>(widen(want)));
    return;
  }
}

}  // namespace

int main() {
  const ArchFlags& host = ArchFlags::host();
  ArchFlags avx2;
  avx2.avx2_fma = host.avx2_fma;
  const Activation activation{-2.0f, -1.1f, 0.7f};
  const ResidualKernel* seen = nullptr;
  for (const ArchFlags& arch : {ArchFlags{}, avx2, host}) {
    const ResidualKernel& kernel = get_residual_kernel(arch);
    if (&kernel == seen) continue;
    seen = &kernel;
    for (int64_t n = 0; n <= 300; ++n) {
      check<double>(kernel, nullptr, n);
      for (const Activation* a : {static_cast<const Activation*>(nullptr), &activation}) {
        check<float>(kernel, a, n);
        check<Float16>(kernel, a, n);
        check<Bfloat16>(kernel, a, n);
      }
    }
    std::printf("%s\n", kernel.name);
  }
  if (!host.avx2_fma) std::printf("SKIP avx2: this CPU lacks AVX2 or FMA\n");
  if (!host.avx512) std::printf("SKIP avx512: this CPU lacks AVX-512\n");
  std::printf("%d runs, %d failures\n", checked, failures);
  return failures == 0 ? 0 : 1;
}

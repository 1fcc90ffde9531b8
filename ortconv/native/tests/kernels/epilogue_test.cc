// Every epilogue kernel this CPU has: exactly what the definition gives, for special values, every length and
// alignment.
#include "kernels/epilogue/epilogue.h"

#include <cstdio>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "testing/each_kernel.h"

using namespace ortconv;
using namespace ortconv::kernels;

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

int failures = 0, checked = 0;

template <class T>
void check_activation(const EpilogueKernel& kernel, const Activation& activation, float bias, int64_t n) {
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
void check_residual(const EpilogueKernel& kernel, const Activation* activation, int64_t n) {
  constexpr int64_t kGuards = 64;
  std::mt19937 random(static_cast<unsigned>(n));
  const int64_t skew = n % 17;  // where in a line dst begins
  const std::vector<T> before = numbers<T>(skew + n + kGuards, random), residual = numbers<T>(n, random);
  std::vector<T> dst = before;
  kernel.add_residual(activation, n, residual.data(), dst.data() + skew);
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
  const Activation activation{-2.0f, -1.1f, 0.7f};
  test::for_each_kernel(get_epilogue_kernel, [&](const EpilogueKernel& kernel) {
    for (const Activation& a :
         {Activation{0.0f, -kInf, kInf}, Activation{1.0f, 0.0f, kInf}, Activation{0.1f, -kInf, kInf},
          Activation{-2.0f, -1.1f, 0.7f}, Activation{1.0f, 0.0f, 6.0f}}) {
      for (int64_t n = 0; n <= 100; ++n) {
        for (const float bias : {-0.0f, 0.3f}) {
          check_activation<float>(kernel, a, bias, n);
          check_activation<Float16>(kernel, a, bias, n);
          check_activation<Bfloat16>(kernel, a, bias, n);
        }
      }
    }
    for (int64_t n = 0; n <= 300; ++n) {
      check_residual<double>(kernel, nullptr, n);
      for (const Activation* a : {static_cast<const Activation*>(nullptr), &activation}) {
        check_residual<float>(kernel, a, n);
        check_residual<Float16>(kernel, a, n);
        check_residual<Bfloat16>(kernel, a, n);
      }
    }
  });
  std::printf("%d runs, %d failures\n", checked, failures);
  return failures == 0 ? 0 : 1;
}

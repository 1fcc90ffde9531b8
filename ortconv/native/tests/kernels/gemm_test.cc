// Every GEMM kernel this CPU has: all row counts, column counts, taps and both ways to store, against a naive sum. B
// ends where its last row does.
#include "kernels/gemm/gemm.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <random>
#include <type_traits>
#include <vector>

#include "base/math.h"
#include "testing/guarded.h"

using namespace ortconv;
using namespace ortconv::kernels;

namespace {

int failures = 0, checked = 0;

template <class T>
std::vector<T> random_operands(std::mt19937& random, int64_t count) {
  std::uniform_real_distribution<Sum<T>> uniform(-1, 1);
  std::vector<T> operands(count);
  for (T& x : operands) {
    if constexpr (std::is_same_v<T, BfloatPair>) {
      x = {to_bfloat16(uniform(random)), to_bfloat16(uniform(random))};
    } else {
      round_to(&x, uniform(random));
    }
  }
  return operands;
}

// Adds the product of two operands to `sum`, and its magnitude.
template <class T, class B>
void add_product(T a, B b, long double* sum, long double* magnitude) {
  if constexpr (std::is_same_v<T, BfloatPair>) {
    add_product(widen(a.first), widen(b.first), sum, magnitude);
    add_product(widen(a.second), widen(b.second), sum, magnitude);
  } else {
    const long double product = static_cast<long double>(a) * widen(b);
    *sum += product;
    *magnitude += std::fabs(product);
  }
}

template <class B, class T>
void check(const BasicGemmKernel<T>& kernel, int64_t rows, int64_t cols, int64_t taps, int64_t k, bool accumulate) {
  if (kernel.template of<B>() == nullptr) return;
  constexpr bool kWidens = !std::is_same_v<B, T>;
  const int64_t whole = align_up(cols, kGemmColumns);  // columns that are there
  const int64_t lda = rows + taps - 1, ldb = whole + 7;
  std::mt19937 random(1);
  std::vector<int64_t> offsets(taps);
  for (int64_t tap = 0; tap < taps; ++tap) offsets[tap] = (tap * 5) % 7;
  const std::vector<T> a = random_operands<T>(random, taps * k * lda);
  // No more than what may be read.
  const int64_t b_count = *std::max_element(offsets.begin(), offsets.end()) + (k - 1) * ldb + cols;
  Guarded b_memory(static_cast<size_t>(b_count) * sizeof(B), false);
  B* const b = b_memory.as<B>();
  const std::vector<B> numbers = random_operands<B>(random, b_count);
  std::copy(numbers.begin(), numbers.end(), b);
  std::vector<Sum<T>> c = random_operands<Sum<T>>(random, rows * whole);
  const std::vector<Sum<T>> before = c;
  std::vector<Sum<T>*> c_rows;
  for (int64_t r = 0; r < rows; ++r) c_rows.push_back(c.data() + (rows - 1 - r) * whole);  // any order of rows
  BasicGemmArgs<T, B> args{rows, cols, taps, k, a.data(), b, offsets.data(), ldb, c_rows.data(), 7, accumulate};
  args.lda = lda;
  args.next = accumulate && !kWidens ? a.data() : nullptr;
  args.far_a = k == 2, args.far_b = k == 33 && !accumulate;
  kernel.template of<B>()(args);
  ++checked;
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t n = 0; n < cols; ++n) {
      const int64_t at = (rows - 1 - r) * whole + n;
      long double want = accumulate ? before[at] : Sum<T>(), magnitude = std::fabs(want);
      for (int64_t tap = 0; tap < taps; ++tap) {
        for (int64_t i = 0; i < k; ++i) {
          add_product(a[(tap * k + i) * lda + r], b[offsets[tap] + i * ldb + n], &want, &magnitude);
        }
      }
      // One rounding per product and sum.
      const long double bound = 2 * std::numeric_limits<Sum<T>>::epsilon() *
                                static_cast<long double>(taps * k * kChannels<T> + 1) * magnitude;
      if (!(std::fabs(c[at] - want) <= bound)) {
        ++failures;
        std::printf("FAIL %s rows %ld cols %ld taps %ld k %ld %s\n", kernel.name, static_cast<long>(rows),
                    static_cast<long>(cols), static_cast<long>(taps), static_cast<long>(k),
                    accumulate ? "accumulate" : "overwrite");
        return;
      }
    }
  }
}

// A sum in pieces is what calls of one piece each give, added to what C holds when it is complete.
template <class T>
void check_pieces(const BasicGemmKernel<T>& kernel, int64_t rows, int64_t cols, bool accumulate) {
  constexpr int64_t kDepth = 33, kPiece = 5;
  std::mt19937 random(2);
  const std::vector<T> a = random_operands<T>(random, kDepth * rows), b = random_operands<T>(random, kDepth * cols);
  std::vector<Sum<T>> c = random_operands<Sum<T>>(random, rows * cols), sums(rows * cols);
  const std::vector<Sum<T>> before = c;
  std::vector<Sum<T>*> c_rows, sum_rows;
  for (int64_t r = 0; r < rows; ++r) {
    c_rows.push_back(c.data() + r * cols);
    sum_rows.push_back(sums.data() + r * cols);
  }
  const int64_t no_offset = 0;
  kernel.run({rows, cols, 1, kDepth, a.data(), b.data(), &no_offset, cols, c_rows.data(), kPiece, accumulate});
  for (int64_t k = 0; k < kDepth; k += kPiece) {
    const int64_t depth = std::min(kPiece, kDepth - k);
    kernel.run({rows, cols, 1, depth, a.data() + k * rows, b.data() + k * cols, &no_offset, cols, sum_rows.data(),
                kDepth, k > 0});
  }
  for (size_t i = 0; i < sums.size() && accumulate; ++i) sums[i] = before[i] + sums[i];
  ++checked;
  if (c != sums) {
    ++failures;
    std::printf("FAIL %s rows %ld cols %ld %s: other pieces\n", kernel.name, static_cast<long>(rows),
                static_cast<long>(cols), accumulate ? "accumulate" : "overwrite");
  }
}

// A GEMM that copies B gives the sums of one that does not, and the strips of B, widened; and the same sums of these.
template <class B, class T>
void check_strips(const BasicGemmKernel<T>& kernel, int64_t rows, int64_t cols, bool accumulate) {
  if (kernel.template of<B>() == nullptr) return;
  constexpr int64_t kDepth = 33, kPiece = 7, kBeyond = 5;
  const int64_t ldb = cols + kBeyond, no_offset = 0;
  std::mt19937 random(3);
  const std::vector<T> a = random_operands<T>(random, kDepth * rows);
  const std::vector<B> b = random_operands<B>(random, kDepth * ldb);
  std::vector<Sum<T>> sums = random_operands<Sum<T>>(random, rows * cols), c = sums;
  constexpr int64_t kStrip = (kDepth + 2) * kGemmColumns;
  std::vector<T> copy(cols / kGemmColumns * kStrip), expected(copy);
  for (int64_t k = 0; k < kDepth; ++k) {
    for (int64_t n = 0; n < cols; ++n) {
      expected[n / kGemmColumns * kStrip + k * kGemmColumns + n % kGemmColumns] = widen(b[k * ldb + n]);
    }
  }
  std::vector<Sum<T>*> c_rows, sum_rows;
  for (int64_t r = 0; r < rows; ++r) {
    c_rows.push_back(c.data() + r * cols);
    sum_rows.push_back(sums.data() + r * cols);
  }
  BasicGemmArgs<T, B> args{rows,   cols,      1, kDepth, a.data(), b.data(), &no_offset, ldb, sum_rows.data(),
                           kPiece, accumulate};
  kernel.template of<B>()(args);
  const std::vector<Sum<T>> before = c;
  args.c = c_rows.data(), args.copy_of_b = copy.data(), args.strip_step = kStrip;
  kernel.template of<B>()(args);
  const bool same_with_copy = c == sums;
  c = before;
  // Of fewer columns than the strips have, too.
  for (const int64_t some : {cols - 9, cols}) {
    BasicGemmArgs<T> strips{rows,         some,          1,      kDepth,    a.data(), copy.data(), &no_offset,
                            kGemmColumns, c_rows.data(), kPiece, accumulate};
    strips.strip_step = kStrip;
    if (some < cols && accumulate) continue;
    kernel.run(strips);
    for (int64_t r = 0; some < cols && r < rows; ++r) {
      if (!std::equal(c_rows[r], c_rows[r] + some, sum_rows[r]))
        ++failures, std::printf("FAIL %s: other sums of some columns\n", kernel.name);
    }
  }
  ++checked;
  if (c != sums || copy != expected || !same_with_copy) {
    ++failures;
    std::printf("FAIL %s rows %ld cols %ld: %s\n", kernel.name, static_cast<long>(rows), static_cast<long>(cols),
                !same_with_copy    ? "other sums with a copy"
                : copy != expected ? "another copy"
                                   : "other sums of strips");
  }
}

// A GEMM that rounds gives the sums of one that does not, with the bias, rounded.
template <class Number, class B>
void check_rounded(const GemmKernel& kernel, Rounding rounding, int64_t rows, int64_t cols, bool has_bias) {
  constexpr int64_t kDepth = 9;
  const int64_t no_offset = 0, whole = align_up(cols, kGemmColumns);
  std::mt19937 random(4);
  const std::vector<float> a = random_operands<float>(random, kDepth * rows),
                           bias = random_operands<float>(random, rows);
  const std::vector<B> b = random_operands<B>(random, kDepth * cols);
  std::vector<float> sums(rows * whole);
  std::vector<Number> rounded(rows * whole);
  std::vector<float*> sum_rows, rounded_rows;
  for (int64_t r = 0; r < rows; ++r) {
    sum_rows.push_back(sums.data() + r * whole);
    rounded_rows.push_back(reinterpret_cast<float*>(rounded.data() + r * whole));
  }
  BasicGemmArgs<float, B> args{rows, cols, 1, kDepth, a.data(), b.data(), &no_offset, cols, sum_rows.data(), 7, false};
  kernel.of<B>()(args);
  args.c = rounded_rows.data(), args.rounding = rounding, args.bias = has_bias ? bias.data() : nullptr;
  kernel.of<B>()(args);
  ++checked;
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t n = 0; n < cols; ++n) {
      Number want;
      round_to(&want, sums[r * whole + n] + (has_bias ? bias[r] : -0.0f));
      if (rounded[r * whole + n].bits == want.bits) continue;
      ++failures;
      std::printf("FAIL %s rows %ld cols %ld: rounded otherwise\n", kernel.name, static_cast<long>(rows),
                  static_cast<long>(cols));
      return;
    }
  }
}

template <class T>
void check_all(const BasicGemmKernel<T>& kernel) {
  for (int64_t rows = 1; rows <= kernel.mr; ++rows) {
    for (int64_t cols = 1; cols <= 8 * kGemmColumns; cols += cols % kGemmColumns == 0 ? 1 : 3) {
      for (const int64_t taps : {1, 3}) {
        for (const int64_t k : {1, 2, 33}) {
          for (const bool accumulate : {false, true}) {
            check<T>(kernel, rows, cols, taps, k, accumulate);
            if constexpr (std::is_same_v<T, float>) {
              check<Float16>(kernel, rows, cols, taps, k, accumulate);
              check<Bfloat16>(kernel, rows, cols, taps, k, accumulate);
            }
          }
        }
      }
      if constexpr (std::is_same_v<T, float>) {
        for (int i = 0; kernel.rounds() && i < 2; ++i) {
          check_rounded<Float16, float>(kernel, Rounding::kFloat16, rows, cols, i == 0);
          check_rounded<Float16, Float16>(kernel, Rounding::kFloat16, rows, cols, i == 0);
          check_rounded<Bfloat16, Bfloat16>(kernel, Rounding::kBfloat16, rows, cols, i == 0);
        }
      }
      if (cols % kGemmColumns != 0) continue;
      for (const bool accumulate : {false, true}) {
        check_pieces(kernel, rows, cols, accumulate);
        if constexpr (!std::is_same_v<T, BfloatPair>) {
          if (!kernel.takes_strips) continue;
          check_strips<T>(kernel, rows, cols, accumulate);
          if constexpr (std::is_same_v<T, float>) {
            check_strips<Float16>(kernel, rows, cols, accumulate);
            check_strips<Bfloat16>(kernel, rows, cols, accumulate);
          }
        }
      }
    }
  }
  std::printf("%s\n", kernel.name);
}

}  // namespace

int main() {
  const ArchFlags& host = ArchFlags::host();
  ArchFlags avx2;
  avx2.avx2_fma = host.avx2_fma;
  const GemmKernel* seen = nullptr;
  const BasicGemmKernel<double>* seen_f64 = nullptr;
  for (const ArchFlags& arch : {ArchFlags{}, avx2, host}) {
    const GemmKernel& kernel = get_gemm_kernel(arch);
    if (&kernel != seen) check_all(kernel);
    seen = &kernel;
    const BasicGemmKernel<double>& f64 = get_gemm_f64_kernel(arch);
    if (&f64 != seen_f64) check_all(f64);
    seen_f64 = &f64;
  }
  ArchFlags dots = host;
  dots.slow_bf16_dots = false;
  if (const auto* pairs = get_gemm_pairs_kernel(dots)) {
    check_all(*pairs);
  } else {
    std::printf("SKIP pairs: this CPU has no dot products of them\n");
  }
  if (!host.avx2_fma) std::printf("SKIP avx2: this CPU lacks AVX2 or FMA\n");
  if (!host.avx512) std::printf("SKIP avx512: this CPU lacks AVX-512\n");
  std::printf("%d runs, %d failures\n", checked, failures);
  return failures == 0 ? 0 : 1;
}

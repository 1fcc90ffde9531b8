// Every kernel for compressed matrices this CPU has, against sums in double: all types of code, blocks, odd lengths,
// extremes, and rows in groups. What is read ends, or begins, where the memory does.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <vector>

#include "base/parallel.h"
#include "kernels/matmul_nbits/codes.h"
#include "kernels/matmul_nbits/rows_by_matrix.h"
#include "kernels/matmul_nbits/stages.h"
#include "testing/guarded.h"
#include "testing/on_threads.h"

using namespace ortconv;
using namespace ortconv::kernels;

namespace {

int failures = 0, checked = 0;

// Exact in 16 bits, in no order, and with both zeros; 3 stands for itself, as in check_special.
constexpr float kTable[kTableNumbers] = {-7,    0.25f, -0.0f, 3,  0.125f, -1,    2.5f,  6,
                                         -0.5f, 11,    0,     -4, 1,      0.75f, -3.5f, 5};

// Codes as the test has them, what they stand for, and packed.
struct Codes {
  std::vector<int> values;
  bool has_table;
  Guarded bytes;

  double number(int64_t i) const { return has_table ? static_cast<double>(kTable[values[i]]) : values[i]; }

  Codes(Code code, int64_t count, bool only_extremes, bool at_begin, std::mt19937& random)
      : values(count), has_table(code == Code::kTable), bytes((count * bits_of(code) + 7) / 8, at_begin) {
    const int least = is_signed(code) ? -(1 << (bits_of(code) - 1)) : 0, number = 1 << bits_of(code);
    for (int& v : values) v = least + static_cast<int>(only_extremes ? random() % 2 * (number - 1) : random() % number);
    auto* out = bytes.as<uint8_t>();
    std::memset(out, 0xff, (count * bits_of(code) + 7) / 8);
    for (int64_t i = 0; i < count; ++i) {
      if (bits_of(code) == 8) {
        out[i] = static_cast<uint8_t>(values[i]);
      } else {
        const int shift = i % 2 * 4;
        out[i / 2] = static_cast<uint8_t>((out[i / 2] & ~(15 << shift)) | (values[i] & 15) << shift);
      }
    }
  }
};

struct Shape {
  int64_t m, n, k, block;
  bool has_zeros, only_extremes, at_begin;
};

// A table, where there is one, right before a page that nobody may touch.
struct Table {
  Guarded memory{sizeof(kTable), false};

  // `unused` replaces a number that no code of the test chooses.
  explicit Table(QuantizedMatrix* matrix, float unused = kTable[0]) {
    std::copy_n(kTable, kTableNumbers, memory.as<float>());
    memory.as<float>()[0] = unused;
    if (matrix->code == Code::kTable) matrix->table = memory.as<float>(), matrix->zeros = nullptr;
  }
};

template <class T>
void check(const ArchFlags& arch, Code code, const Shape& s, const Parallel& parallel) {
  std::mt19937 random(static_cast<unsigned>(s.m * 7919 + s.n * 131 + s.k));
  std::normal_distribution<float> normal;
  const int64_t blocks = s.k / s.block;
  Codes codes(code, s.n * s.k, s.only_extremes, s.at_begin, random);
  Codes zeros(code, s.n * blocks, s.only_extremes, s.at_begin, random);
  Guarded scales(s.n * blocks * sizeof(float), s.at_begin), x(s.m * s.k * sizeof(T), s.at_begin);
  Guarded y(s.m * s.n * sizeof(T), s.at_begin);
  for (int64_t i = 0; i < s.n * blocks; ++i) scales.as<float>()[i] = normal(random);
  for (int64_t i = 0; i < s.m * s.k; ++i) round_to(x.as<T>() + i, normal(random));
  std::memset(y.as<char>(), 0xff, s.m * s.n * sizeof(T));  // NaN
  QuantizedMatrix matrix{code,
                         s.n,
                         s.k,
                         s.block,
                         codes.bytes.as<void>(),
                         scales.as<float>(),
                         s.has_zeros ? zeros.bytes.as<void>() : nullptr};
  const Table table(&matrix);
  const RowGroups rows = RowGroups::all(s.m, matrix);
  const size_t bytes = matmul_nbits_scratch_bytes<T>(arch, matrix, rows, parallel.threads);
  std::vector<char> memory(bytes + 63);
  void* scratch = memory.data();
  size_t room = memory.size();
  scratch = std::align(64, bytes, scratch, room);
  std::memset(scratch, 0xff, bytes);
  matmul_nbits(arch, matrix, rows, x.as<T>(), y.as<T>(), scratch, parallel);
  ++checked;
  for (int64_t i = 0; i < s.m; ++i) {
    for (int64_t n = 0; n < s.n; ++n) {
      double want = 0, magnitude = 0;
      for (int64_t k = 0; k < s.k; ++k) {
        const int64_t b = n * blocks + k / s.block;
        const int zero = matrix.zeros != nullptr ? zeros.values[b] : 0;
        const double product = static_cast<double>(widen(x.as<T>()[i * s.k + k])) * (codes.number(n * s.k + k) - zero) *
                               static_cast<double>(scales.as<float>()[b]);
        want += product;
        magnitude += std::fabs(product);
      }
      // A rounding of the weight, the product and each sum; they are far fewer one after the other than there are k.
      const double roundings = 4 + std::sqrt(static_cast<double>(s.k));
      double bound = roundings * static_cast<double>(std::numeric_limits<float>::epsilon()) * magnitude;
      if (sizeof(T) == 2) {
        bound += std::fabs(want) * (std::is_same_v<T, Float16> ? 0x1p-11 : 0x1p-8) + 0x1p-24;
      }
      const double got = static_cast<double>(widen(y.as<T>()[i * s.n + n]));
      if (std::fabs(got - want) <= bound) continue;
      ++failures;
      std::printf(
          "FAIL %s code %d x of %zu bytes m %ld n %ld k %ld block %ld zeros %d: y[%ld][%ld] is %.9g, not %.9g\n",
          get_matmul_nbits_kernel(arch).name, static_cast<int>(code), sizeof(T), static_cast<long>(s.m),
          static_cast<long>(s.n), static_cast<long>(s.k), static_cast<long>(s.block), s.has_zeros, static_cast<long>(i),
          static_cast<long>(n), got, want);
      return;
    }
  }
}

constexpr Code kCodes[] = {Code::kU8, Code::kS8, Code::kU4, Code::kS4, Code::kTable};

// Of so many problems, one is taken.
int every = 1;

void check_all(const ArchFlags& arch) {
  for (const Code code : kCodes) {
    int turn = 0;
    const auto one = [&](int64_t m, int64_t n, int64_t k, int64_t block) {
      if (++turn % every != 0) return;
      const Parallel parallel = turn % 3 == 0 ? serial() : on_threads(1 + turn % 3);
      const Shape shape{m, n, k, block, turn % 2 == 0, turn % 7 == 0, turn % 4 < 2};
      check<float>(arch, code, shape, parallel);
      if (turn % 3 == 0) check<Float16>(arch, code, shape, parallel);
      if (turn % 3 == 1) check<Bfloat16>(arch, code, shape, parallel);
    };
    for (const int64_t block : {1, 2, 3, 5, 8, 16, 24, 32, 40, 64, 128, 256, 384}) {
      for (const int64_t count : {1, 2, 3, 4, 5, 9}) {
        for (const int64_t m : {1, 2, 5, 17}) one(m, 37, count * block, block);
      }
    }
    for (int64_t k = 1; k <= 300; k += k < 140 ? 1 : 7) {
      for (const int64_t m : {1, 3, 20}) one(m, 19, k, k);
    }
    for (int64_t m = 1; m <= 33; ++m) {
      for (const int64_t block : {32, 64, 128, 256}) one(m, 21, 256, block);
    }
    for (int64_t n = 1; n <= 70; ++n) {
      for (const int64_t m : {1, 2, 4, 100}) {
        if (m == 100 && n > 3 && n % 11 != 0) continue;  // these take longest
        for (const int64_t block : {16, 32, 128}) one(m, n, 384, block);
      }
    }
    for (const int64_t k : {1000, 1024, 1408}) {
      for (const int64_t m : {1, 8, 40}) {
        for (const int64_t block : {int64_t{8}, int64_t{32}, k}) {
          if (k % block == 0) one(m, 150, k, block);
        }
      }
    }
    // More rows than are summed at a time.
    const Shape tall{2 * 4096 + 5, 3, 4, 2, false, true, false};
    check<Float16>(arch, code, tall, on_threads(3));
    check<Bfloat16>(arch, code, tall, on_threads(3));
    one(0, 5, 32, 16);
    one(3, 0, 32, 16);
  }
  std::printf("%s\n", get_matmul_nbits_kernel(arch).name);
}

struct GroupedShape {
  int64_t count, sharing, matrices, n, k, block;
};

// Rows that name one of several matrices; `most` is how many of these are named at all, beside numbers of none.
template <class T>
void check_named(const ArchFlags& arch, Code code, const GroupedShape& s, int64_t most, const Parallel& parallel) {
  std::mt19937 random(static_cast<unsigned>(s.count * 7919 + s.n * 131 + s.k));
  std::normal_distribution<float> normal;
  const int64_t blocks = s.k / s.block, rows = s.matrices * s.n, sources = (s.count + s.sharing - 1) / s.sharing;
  Codes codes(code, rows * s.k, false, false, random), zeros(code, rows * blocks, false, true, random);
  Guarded scales(rows * blocks * sizeof(float), false), x(sources * s.k * sizeof(T), false);
  Guarded y(s.count * s.n * sizeof(T), true);
  for (int64_t i = 0; i < rows * blocks; ++i) scales.as<float>()[i] = normal(random);
  for (int64_t i = 0; i < sources * s.k; ++i) round_to(x.as<T>() + i, normal(random));
  std::memset(y.as<char>(), 0xff, s.count * s.n * sizeof(T));  // NaN
  std::vector<int64_t> index(s.count);
  for (int64_t& i : index) i = static_cast<int64_t>(random() % (most + 2)) - 1;
  const RowsByMatrix named = rows_by_matrix(index.data(), s.count, s.sharing, s.matrices, s.n);
  QuantizedMatrix matrix{code, rows, s.k, s.block, codes.bytes.as<void>(), scales.as<float>(), zeros.bytes.as<void>()};
  const Table table(&matrix);
  const size_t bytes = matmul_nbits_scratch_bytes<T>(arch, matrix, named.rows, parallel.threads);
  Guarded scratch((bytes + 63) / 64 * 64, false);
  std::memset(scratch.as<char>(), 0xff, (bytes + 63) / 64 * 64);
  matmul_nbits(arch, matrix, named.rows, x.as<T>(), y.as<T>(), scratch.as<void>(), parallel);
  ++checked;
  for (int64_t i = 0; i < s.count; ++i) {
    const bool is_named = index[i] >= 0 && index[i] < s.matrices;
    const bool is_listed =
        std::find(named.without_matrix.begin(), named.without_matrix.end(), i) != named.without_matrix.end();
    for (int64_t n = 0; n < s.n; ++n) {
      const double got = static_cast<double>(widen(y.as<T>()[i * s.n + n]));
      double want = 0, magnitude = 0;
      for (int64_t k = 0; k < s.k && is_named; ++k) {
        const int64_t row = index[i] * s.n + n, b = row * blocks + k / s.block;
        const double product = static_cast<double>(widen(x.as<T>()[i / s.sharing * s.k + k])) *
                               (codes.number(row * s.k + k) - (matrix.zeros != nullptr ? zeros.values[b] : 0)) *
                               static_cast<double>(scales.as<float>()[b]);
        want += product;
        magnitude += std::fabs(product);
      }
      const double roundings = 4 + std::sqrt(static_cast<double>(s.k));
      double bound = roundings * static_cast<double>(std::numeric_limits<float>::epsilon()) * magnitude;
      if (sizeof(T) == 2) {
        bound += std::fabs(want) * (std::is_same_v<T, Float16> ? 0x1p-11 : 0x1p-8) + 0x1p-24;
      }
      // A row that names nothing is left as it was.
      const bool right = is_named ? std::fabs(got - want) <= bound : got != got;
      if (right && is_listed != is_named) continue;
      ++failures;
      std::printf(
          "FAIL %s code %d x of %zu bytes, %ld rows, %ld share, matrices %ld x %ld x %ld, block %ld: y[%ld][%ld] "
          "by %ld is %.9g, not %.9g\n",
          get_matmul_nbits_kernel(arch).name, static_cast<int>(code), sizeof(T), static_cast<long>(s.count),
          static_cast<long>(s.sharing), static_cast<long>(s.matrices), static_cast<long>(s.n), static_cast<long>(s.k),
          static_cast<long>(s.block), static_cast<long>(i), static_cast<long>(n), static_cast<long>(index[i]), got,
          want);
      return;
    }
  }
}

void check_all_named(const ArchFlags& arch) {
  int turn = 0;
  for (const Code code : kCodes) {
    for (const int64_t count : {0, 1, 2, 8, 30, 200}) {
      for (const int64_t block : {1, 7, 32, 128}) {
        for (const int64_t n : {1, 7, 33, 64}) {
          if (++turn % every != 0) continue;
          const Parallel parallel = turn % 3 == 0 ? serial() : on_threads(1 + turn % 3);
          const int64_t most = 1 + turn % 5;
          const GroupedShape shape{count, turn % 2 == 0 ? 1 : 4, 5, n, block * (1 + turn % 3), block};
          check_named<float>(arch, code, shape, most, parallel);
          if (turn % 3 == 0) check_named<Float16>(arch, code, shape, most, parallel);
          if (turn % 3 == 1) check_named<Bfloat16>(arch, code, shape, most, parallel);
        }
      }
    }
    // More rows than are taken at a time, a row that several groups have in common, and no matrices.
    if (every > 1 && code != kCodes[0]) continue;  // of one code where few problems are wanted
    check_named<float>(arch, code, {700, 2, 5, 33, 1024, 128}, 5, on_threads(3));
    check_named<Float16>(arch, code, {700, 2, 5, 33, 1024, 128}, 5, on_threads(3));
    check_named<float>(arch, code, {3, 3, 5, 33, 256, 128}, 5, on_threads(3));
    check_named<float>(arch, code, {3, 3, 0, 33, 256, 128}, 1, on_threads(3));
  }
}

// Infinity and NaN in x reach the rows that they are in and no others. An infinite scale of codes of a table reaches
// its column, and a number that no code chooses nothing.
void check_special(const ArchFlags& arch, Code code, int64_t m, int64_t block) {
  constexpr int64_t kRows = 33, kDepth = 96;
  std::vector<uint8_t> codes(kRows * kDepth, 0x33);
  std::vector<float> scales(kRows * kDepth / block, 0.5f), x(m * kDepth, 1.0f), y(m * kRows);
  x[5] = std::numeric_limits<float>::infinity();
  if (m > 1) x[kDepth + 7] = std::numeric_limits<float>::quiet_NaN();
  QuantizedMatrix matrix{code, kRows, kDepth, block, codes.data(), scales.data()};
  const Table table(&matrix, std::numeric_limits<float>::quiet_NaN());
  constexpr int64_t kInfinite = 17;
  const bool has_infinite = code == Code::kTable;
  if (has_infinite) scales[(kInfinite + 1) * kDepth / block - 1] = std::numeric_limits<float>::infinity();
  const RowGroups rows = RowGroups::all(m, matrix);
  std::vector<char> memory(63 + matmul_nbits_scratch_bytes<float>(arch, matrix, rows, 1));
  void* scratch = memory.data();
  size_t room = memory.size();
  matmul_nbits(arch, matrix, rows, x.data(), y.data(), std::align(64, room - 63, scratch, room), serial());
  const float usual = 0.5f * kDepth * (bits_of(code) == 8 ? 0x33 : 3);
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t n = 0; n < kRows; ++n) {
      const float got = y[i * kRows + n];
      const bool is_infinite = i == 0 || (has_infinite && n == kInfinite);
      const bool right = i == 1        ? got != got
                         : is_infinite ? got == std::numeric_limits<float>::infinity()
                                       : got == usual;
      if (right) continue;
      ++failures;
      std::printf("FAIL %s code %d m %ld block %ld special: y[%ld][%ld] is %g\n", get_matmul_nbits_kernel(arch).name,
                  static_cast<int>(code), static_cast<long>(m), static_cast<long>(block), static_cast<long>(i),
                  static_cast<long>(n), static_cast<double>(got));
      return;
    }
  }
  ++checked;
}

void check_no_depth(const ArchFlags& arch) {
  const QuantizedMatrix matrix{Code::kU4, 3, 0, 16, nullptr, nullptr};
  float y[6] = {1, 1, 1, 1, 1, 1};
  matmul_nbits<float>(arch, matrix, RowGroups::all(2, matrix), nullptr, y, nullptr, serial());
  ++checked;
  if (std::any_of(y, y + 6, [](float value) { return value != 0; })) {
    ++failures;
    std::printf("FAIL k 0: not zeros\n");
  }
}

}  // namespace

// One of `every` problems.
int main(int argc, char** argv) {
  if (argc > 1) every = std::atoi(argv[1]);
  const ArchFlags& host = ArchFlags::host();
  ArchFlags avx2;
  avx2.avx2_fma = host.avx2_fma;
  const MatMulNbitsKernel* seen = nullptr;
  for (const ArchFlags& arch : {ArchFlags{}, avx2, host}) {
    const MatMulNbitsKernel& kernel = get_matmul_nbits_kernel(arch);
    if (&kernel == seen) continue;
    seen = &kernel;
    check_all(arch);
    check_all_named(arch);
    check_no_depth(arch);
    for (const Code code : kCodes) {
      for (const int64_t m : {1, 2, 7, 40}) {
        for (const int64_t block : {3, 32, 96}) check_special(arch, code, m, block);
      }
    }
  }
  if (!host.avx2_fma) std::printf("SKIP avx2: this CPU lacks AVX2 or FMA\n");
  if (!host.avx512) std::printf("SKIP avx512: this CPU lacks AVX-512\n");
  std::printf("%d runs, %d failures\n", checked, failures);
  return failures == 0 ? 0 : 1;
}

// Products by compressed weights, carried out by the emulator, against the definition.
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "cuda/plan/compressed_plan.h"
#include "kernels/matmul_nbits/codes.h"
#include "testing/cuda/plans.h"
#include "testing/cuda/tensors.h"
#include "testing/cuda/tried.h"

namespace ortconv::cuda {
namespace {

using kernels::Code;

constexpr Code kCodes[] = {Code::kU8, Code::kS8, Code::kU4, Code::kS4, Code::kTable};
constexpr bool may_have_zeros(Code code) { return code != Code::kTable; }

// Of few bits, so that products and sums are exact in every type where the integers' are. In no order.
constexpr float kNumbers[] = {-7, 0.25f, -0.0f, 3, 0.5f, -1, 2.5f, 6, -0.5f, 7, 0, -4, 1, 0.75f, -3.5f, 5};

// Small integers as the definition has them, and as tensors do.
struct Integers {
  std::vector<int> values;
  std::vector<uint8_t> bytes;

  Integers(Code code, int64_t count, bool only_extremes, std::mt19937& random)
      : values(count), bytes((count * kernels::bits_of(code) + 7) / 8) {
    const int bits = kernels::bits_of(code), number = 1 << bits, least = kernels::is_signed(code) ? -number / 2 : 0;
    for (int64_t i = 0; i < count; ++i) {
      const unsigned drawn = only_extremes ? random() % 2 * (number - 1) : random() % number;
      values[i] = least + static_cast<int>(drawn);
      const unsigned stored = static_cast<unsigned>(values[i]) & (number - 1);
      bytes[i * bits / 8] = static_cast<uint8_t>(bytes[i * bits / 8] | stored << i * bits % 8);
    }
  }
};

enum class Way { kPlanned, kDots, kMma, kUnpacked };

struct Setting {
  Device device;
  Options options;
  emulator::Choices choices;
  Way way = Way::kPlanned;
  int64_t x_skew = 0, codes_skew = 0;
  bool exact = true;  // numbers whose products and sums are exact in every type; otherwise any
};

std::string describe(DataType dtype, const CompressedProblem& p, const Setting& s) {
  return test::describe("type ", static_cast<int>(dtype), " code ", static_cast<int>(p.code), " m ", p.m, " n ", p.n,
                        " k ", p.k, " block ", p.block, p.has_zeros ? " zeros" : "", p.has_index ? " index" : "",
                        " matrices ", p.matrices, " sharing ", p.sharing, " on sm ", s.device.sm, " multiprocessors ",
                        s.device.multiprocessors, s.options.tf32 ? " tf32" : "", " order ", s.choices.order,
                        s.choices.late_copies ? " late copies" : "", " way ", static_cast<int>(s.way), " skews ",
                        s.x_skew, ' ', s.codes_skew, s.exact ? "" : " any numbers");
}

Tried& tried() {
  static Tried all;
  return all;
}

template <class T>
struct Inputs {
  Integers codes, zeros;
  std::vector<T> x, scales;
  std::vector<float> table{std::begin(kNumbers), std::end(kNumbers)};
  std::vector<int64_t> index;

  Inputs(const CompressedProblem& p, bool exact, unsigned seed) : Inputs(p, exact, std::mt19937(seed)) {}

  // The product of row i and column j, and the sum of the magnitudes of its terms.
  void expect(const CompressedProblem& p, int64_t i, int64_t j, double* sum, double* magnitude) const {
    *sum = *magnitude = 0;
    const int64_t blocks = p.k / p.block, row = i / p.sharing;
    if (p.has_index && (index[i] < 0 || index[i] >= p.matrices)) return;
    if (p.has_index) j += index[i] * p.n;
    for (int64_t k = 0; k < p.k; ++k) {
      const int64_t b = j * blocks + k / p.block;
      const int code = codes.values[j * p.k + k], zero = p.has_zeros ? zeros.values[b] : 0;
      const double difference = p.code == Code::kTable ? static_cast<double>(table[code]) : code - zero;
      const double term = difference * test::widen(scales[b]) * test::widen(x[row * p.k + k]);
      *sum += term;
      *magnitude += std::abs(term);
    }
  }

 private:
  Inputs(const CompressedProblem& p, bool exact, std::mt19937 random)
      : codes(p.code, p.matrices * p.n * p.k, random() % 4 == 0, random),
        zeros(p.code, p.matrices * p.n * (p.k / p.block), random() % 4 == 0, random) {
    std::normal_distribution<double> normal;
    for (int64_t i = 0; i < p.m / p.sharing * p.k; ++i) {
      x.push_back(test::narrow<T>(exact ? static_cast<double>(random() % 7) - 3 : normal(random)));
    }
    for (int64_t i = 0; i < p.matrices * p.n * (p.k / p.block); ++i) {
      const double sign = random() % 2 == 0 ? 1 : -1;
      scales.push_back(test::narrow<T>(
          sign * (exact ? std::ldexp(1.0, static_cast<int>(random() % 4) - 2) : std::abs(normal(random)) / 50)));
    }
    for (int64_t i = 0; i < p.m && p.has_index; ++i) {
      index.push_back(static_cast<int64_t>(random() % (p.matrices + 2)) - 1);
    }
  }
};

// The launches; none where the way is refused.
std::optional<Plan> plan_of(DataType dtype, const CompressedProblem& p, const Setting& s) {
  Plan plan;
  if (s.way == Way::kPlanned) plan = plan_compressed(dtype, p, s.device, s.options);
  if (s.way == Way::kDots) plan = plan_dots(dtype, p, s.device);
  if (s.way == Way::kMma && !plan_mma(dtype, p, s.device, &plan)) return std::nullopt;
  if (s.way == Way::kUnpacked && !plan_unpacked(dtype, p, s.device, s.options, &plan)) return std::nullopt;
  for (const Launch& launch : plan.launches) expect_within_limits(launch, s.device, describe(dtype, p, s));
  return plan;
}

// Notes what is to run; false where it is left out.
bool is_wanted(const Plan& plan, const CompressedProblem& p, const Setting& s, const std::string& about) {
  const bool is_new = tried().add(
      plan.launches, {s.x_skew != 0 ? "X skewed" : "X aligned", s.codes_skew != 0 ? "codes skewed" : "codes aligned",
                      s.choices.late_copies ? "late copies" : "early copies", p.has_zeros ? "zeros" : "no zeros",
                      test::describe("code ", static_cast<int>(p.code)), s.exact ? "exact" : "any numbers", about});
  return tried().is_wanted(is_new);
}

template <class T>
std::vector<T> run(const Plan& plan, const CompressedProblem& p, const Inputs<T>& in, const Setting& s) {
  DeviceMemory scratch(plan.scratch_bytes);
  const Tensor<T> x(in.x, s.x_skew), scales(in.scales, s.x_skew);
  const Tensor<uint8_t> codes(in.codes.bytes, s.codes_skew), zeros(in.zeros.bytes, s.codes_skew);
  const Tensor<int64_t> index(in.index, 0);
  const Tensor<float> table(in.table, 0);
  T ones;
  std::memset(static_cast<void*>(&ones), 0xff, sizeof ones);
  const Tensor<T> y(std::vector<T>(p.m * p.n, ones), s.x_skew);
  emulator::Memory memory;
  x.put(Buffer::kX, ptx::Content::kDefined, &memory);
  codes.put(Buffer::kCodes, ptx::Content::kDefined, &memory);
  scales.put(Buffer::kScales, ptx::Content::kDefined, &memory);
  if (p.has_zeros) zeros.put(Buffer::kZeros, ptx::Content::kDefined, &memory);
  if (p.code == Code::kTable) table.put(Buffer::kTable, ptx::Content::kDefined, &memory);
  if (p.has_index) index.put(Buffer::kIndex, ptx::Content::kDefined, &memory);
  y.put(Buffer::kY, ptx::Content::kResult, &memory);
  memory.set(Buffer::kScratch, scratch.data(), plan.scratch_bytes, ptx::Content::kUndefined);
  for (const Launch& launch : plan.launches) emulator::run(launch, s.device.sm, memory, s.choices);
  return y.values();
}

// False where the way is refused.
template <class T>
bool check(DataType dtype, CompressedProblem p, const Setting& s, unsigned seed) {
  p.x_aligned = s.x_skew * sizeof(T) % 16 == 0;
  p.codes_aligned = s.codes_skew % 16 == 0;
  const auto plan = plan_of(dtype, p, s);
  if (!plan || !is_wanted(*plan, p, s, "")) return plan.has_value();
  const Inputs<T> in(p, s.exact, seed);
  const std::string what = describe(dtype, p, s);
  try {
    const std::vector<T> y = run(*plan, p, in, s);
    // Of T, float, and factors that are rounded to T or TF32.
    const double rounding = dtype == DataType::kFloat ? 0x1p-24 : dtype == DataType::kFloat16 ? 0x1p-11 : 0x1p-8;
    const double factors = s.options.tf32 ? 0x1p-10 : dtype == DataType::kFloat ? 0x1p-23 : rounding;
    for (int64_t i = 0; i < p.m * p.n; ++i) {
      double sum, magnitude;
      in.expect(p, i / p.n, i % p.n, &sum, &magnitude);
      const double found = test::widen(y[i]);
      const double bound =
          s.exact ? 0 : magnitude * (factors + static_cast<double>(p.k) * 0x1p-23) + std::abs(sum) * rounding;
      const double wanted = s.exact ? test::widen(test::narrow<T>(sum)) : sum;
      if (found == wanted || std::abs(found - wanted) <= bound) continue;
      EXPECT(false, what, ": element ", i, " of ", p.m * p.n, " is ", found, " not ", wanted, " within ", bound);
      break;
    }
  } catch (const Error& error) {
    EXPECT(false, what, ": ", error.what());
  }
  return true;
}

bool check(DataType dtype, const CompressedProblem& p, const Setting& s, unsigned seed) {
  if (dtype == DataType::kFloat) return check<float>(dtype, p, s, seed);
  if (dtype == DataType::kFloat16) return check<Float16>(dtype, p, s, seed);
  return check<Bfloat16>(dtype, p, s, seed);
}

int wanted_cases(int usual) {
  const char* const wanted = std::getenv("ORTCONV_CUDA_TEST_CASES");
  return wanted != nullptr ? std::atoi(wanted) : usual;
}

constexpr int kCases = 160;

TEST(random_products_by_compressed_weights) {
  const int cases = wanted_cases(kCases);
  CaseMaker maker(19);
  int taken = 0;
  for (int i = 0; i < cases; ++i) {
    CompressedProblem p{};
    p.code = kCodes[maker.draw(0, 4)];
    constexpr int64_t kBlocks[] = {1, 3, 7, 4, 8, 12, 16, 32, 64, 96, 128, 100};
    p.block = kBlocks[maker.draw(0, 11)];
    p.k = p.block * maker.draw(1, std::max<int64_t>(1, (maker.draw(0, 3) == 0 ? 3000 : 400) / p.block));
    constexpr int64_t kRows[] = {1, 1, 2, 3, 4, 6, 8, 9, 17, 40, 70};
    p.m = kRows[maker.draw(0, 10)];
    p.n = maker.draw(0, 2) == 0 ? maker.draw(1, 200) : maker.draw(1, 40);
    p.has_zeros = may_have_zeros(p.code) && maker.draw(0, 1) == 0;
    Setting s;
    s.device = kDevices[maker.draw(0, 3)];
    s.device.multiprocessors = static_cast<int>(maker.draw(1, 4));
    s.options.tf32 = maker.draw(0, 3) == 0;
    s.choices.order = static_cast<unsigned>(maker.draw(0, 5));
    s.choices.late_copies = maker.draw(0, 1) == 0;
    constexpr Way kWays[] = {Way::kPlanned, Way::kPlanned, Way::kDots, Way::kUnpacked};
    s.way = kWays[maker.draw(0, 3)];
    s.x_skew = maker.draw(0, 5) == 0 ? maker.draw(1, 5) : 0;
    s.codes_skew = maker.draw(0, 5) == 0 ? maker.draw(1, 16) : 0;
    s.exact = maker.draw(0, 2) != 0;
    taken += check(kTypes[maker.draw(0, 2)], p, s, static_cast<unsigned>(i));
  }
  EXPECT(taken >= cases * 3 / 4, "only ", taken, " cases were taken");
}

// On tensor cores: every number of tiles and of warps that share a sum, and rows of X beyond the last tile.
TEST(random_products_on_tensor_cores) {
  const int cases = wanted_cases(kCases) / 2;
  CaseMaker maker(23);
  for (int i = 0; i < cases; ++i) {
    CompressedProblem p{};
    p.code = kCodes[maker.draw(0, 4)];
    p.block = 32 * maker.draw(1, 4);
    p.k = p.block * maker.draw(1, maker.draw(0, 3) == 0 ? 20 : 6);
    constexpr int64_t kRows[] = {1, 3, 8, 9, 16, 31, 64, 70};
    p.m = kRows[maker.draw(0, 7)];
    p.n = maker.draw(1, 70);
    p.has_zeros = may_have_zeros(p.code) && maker.draw(0, 2) != 0;
    Setting s;
    const DataType dtype = maker.draw(0, 1) == 0 ? DataType::kFloat16 : DataType::kBfloat16;
    s.device = kDevices[dtype == DataType::kFloat16 ? maker.draw(0, 3) : maker.draw(1, 3)];
    s.device.multiprocessors = static_cast<int>(maker.draw(1, 4));
    s.choices.order = static_cast<unsigned>(maker.draw(0, 5));
    s.way = Way::kMma;
    s.x_skew = maker.draw(0, 3) == 0 ? maker.draw(1, 7) : 0;
    s.exact = maker.draw(0, 2) != 0;
    EXPECT(check(dtype, p, s, static_cast<unsigned>(i)), describe(dtype, p, s), " was refused");
  }
}

TEST(random_products_by_matrices_that_an_index_names) {
  const int cases = wanted_cases(kCases) / 2;
  CaseMaker maker(29);
  for (int i = 0; i < cases; ++i) {
    CompressedProblem p{};
    p.code = kCodes[maker.draw(0, 4)];
    constexpr int64_t kBlocks[] = {1, 3, 7, 8, 16, 32, 96, 128};
    p.block = kBlocks[maker.draw(0, 7)];
    p.k = p.block * maker.draw(1, std::max<int64_t>(1, (maker.draw(0, 5) == 0 ? 2000 : 300) / p.block));
    p.n = maker.draw(1, 50);
    p.has_zeros = may_have_zeros(p.code) && maker.draw(0, 1) == 0;
    p.has_index = true;
    p.matrices = maker.draw(0, 5);
    p.sharing = maker.draw(1, 4);
    p.m = p.sharing * maker.draw(1, 6);
    Setting s;
    s.device = kDevices[maker.draw(0, 3)];
    s.device.multiprocessors = static_cast<int>(maker.draw(1, 4));
    s.choices.order = static_cast<unsigned>(maker.draw(0, 5));
    s.choices.late_copies = maker.draw(0, 1) == 0;
    s.x_skew = maker.draw(0, 5) == 0 ? maker.draw(1, 5) : 0;
    s.codes_skew = maker.draw(0, 5) == 0 ? maker.draw(1, 16) : 0;
    s.exact = maker.draw(0, 2) != 0;
    EXPECT(check(kTypes[maker.draw(0, 2)], p, s, static_cast<unsigned>(i)), describe(DataType::kFloat, p, s));
  }
}

// Sums that many warps share, of all types, with an X that is longer than what is in shared memory at a time.
TEST(long_rows) {
  for (const Code code : kCodes) {
    for (const int64_t m : {1, 2, 4, 8}) {
      for (const DataType dtype : kTypes) {
        Setting s{{80, 4, 163 << 10}, {}, {3, true}, Way::kDots};
        const int64_t k = 4096 + 32 * (m + static_cast<int>(dtype) % 3);
        check(dtype, {code, m, 3, k, 32, may_have_zeros(code), true, true}, s, 5);
      }
    }
  }
}

template <class T>
void check_infinities(DataType dtype, Code code, int64_t m, Way way) {
  const CompressedProblem p{code, m, 20, 64, 32, may_have_zeros(code), true, true};
  const Setting s{{90, 2, 227 << 10}, {}, {}, way};
  const auto plan = plan_of(dtype, p, s);
  EXPECT(plan, describe(dtype, p, s), " was refused");
  if (!plan || !is_wanted(*plan, p, s, test::describe("infinities of code ", static_cast<int>(code)))) return;
  Inputs<T> in(p, true, 1);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  in.x[3] = test::narrow<T>(kInfinity);
  in.x[(m - 1) * p.k + 40] = test::narrow<T>(-kInfinity);
  in.x[m / 2 * p.k + 9] = test::narrow<T>(kInfinity - kInfinity);
  in.scales[7] = test::narrow<T>(kInfinity - kInfinity);
  // A number that no code chooses reaches nothing, though what is beyond a row reads as its code.
  for (int64_t i = 0; i < p.n * p.k && code == Code::kTable; ++i) {
    if (in.codes.values[i] != 0) continue;
    in.codes.values[i] = 1;
    in.codes.bytes[i / 2] = static_cast<uint8_t>(in.codes.bytes[i / 2] | 1 << i % 2 * 4);
  }
  in.table[0] = std::numeric_limits<float>::quiet_NaN();
  const std::vector<T> y = run(*plan, p, in, s);
  EXPECT(y.size() == static_cast<size_t>(p.m * p.n), y.size());
  for (int64_t i = 0; i < static_cast<int64_t>(y.size()); ++i) {
    double sum, magnitude;
    in.expect(p, i / p.n, i % p.n, &sum, &magnitude);
    const double found = test::widen(y[i]);
    EXPECT(found == test::widen(test::narrow<T>(sum)) || (found != found && sum != sum), describe(dtype, p, s),
           ": element ", i, ": ", found, " not ", sum);
  }
}

TEST(infinities_and_nan_reach_their_products) {
  for (const Code code : kCodes) {
    for (const Way way : {Way::kDots, Way::kMma, Way::kUnpacked}) {
      for (const int64_t m : {1, 5}) {
        if (way != Way::kMma) check_infinities<float>(DataType::kFloat, code, m, way);
        check_infinities<Float16>(DataType::kFloat16, code, m, way);
        check_infinities<Bfloat16>(DataType::kBfloat16, code, m, way);
      }
    }
  }
}

TEST(empty_products_launch_nothing) {
  const Device device = kDevices[1];
  EXPECT(plan_compressed(DataType::kFloat, {Code::kU8, 0, 5, 8, 8, false, true, true}, device, {}).launches.empty(),
         "m");
  EXPECT(plan_compressed(DataType::kFloat, {Code::kU8, 5, 0, 8, 8, false, true, true}, device, {}).launches.empty(),
         "n");
}

TEST(every_kind_of_dots_was_tried) {
  if (wanted_cases(kCases) < kCases) return;
  std::vector<std::string> facts = {"unpack -DFLOATS=0", "unpack -DFLOATS=1", "unpack -DTF32=1", "unpack -DTABLE=0",
                                    "unpack -DTABLE=1",  "float_gemm",        "tensor_gemm"};
  for (const char* option :
       {"BITS=4",        "BITS=8",        "COLUMNS=1", "COLUMNS=2", "COLUMNS=4", "DEPTH_WARPS=1", "DEPTH_WARPS=2",
        "DEPTH_WARPS=4", "DEPTH_WARPS=8", "GATHER=0",  "GATHER=1",  "ELEMENT=0", "ELEMENT=1",     "ELEMENT=2",
        "ROWS=1",        "ROWS=2",        "ROWS=4",    "ROWS=8",    "WHOLE=0",   "WHOLE=1",       "WORDS=1",
        "WORDS=2",       "WORDS=4",       "TABLE=0",   "TABLE=1"}) {
    facts.push_back(std::string("compressed_dots -D") + option);
  }
  for (const char* option :
       {"BITS=4", "BITS=8", "DEPTH_WARPS=1", "DEPTH_WARPS=2", "DEPTH_WARPS=4", "DEPTH_WARPS=8", "ELEMENT=1",
        "ELEMENT=2", "TABLE=0", "TABLE=1", "TILES=1", "TILES=2", "TILES=4", "TILES=8"}) {
    facts.push_back(std::string("compressed_mma -D") + option);
  }
  for (const std::string& fact : facts) tried().expect(fact);
}

}  // namespace
}  // namespace ortconv::cuda

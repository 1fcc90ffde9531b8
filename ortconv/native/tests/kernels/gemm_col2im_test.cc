// GEMM, then col2im, against the definition in double: random problems of every type and layout, and some by hand.
#include "kernels/gemm_col2im/gemm_col2im.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <new>

#include "testing/cases.h"
#include "testing/on_threads.h"
#include "testing/test.h"

namespace ortconv {
namespace {

using kernels::Op;
using test::Case;
using test::CaseMaker;
namespace family = kernels::gemm_col2im;

// A run, with scratch full of NaN and of exactly the size that is asked for.
template <class T>
std::vector<T> result(DataType dtype, const ConvProblem& p, const std::vector<T>& src, const std::vector<T>& wei,
                      const T* bias, bool constant, const Parallel& parallel, size_t* scratch_bytes = nullptr) {
  const family::PlanPtr plan = family::make_plan(p, dtype, constant ? wei.data() : nullptr, ArchFlags::host());
  const size_t bytes = family::scratch_bytes(*plan, p, parallel.threads);
  if (scratch_bytes != nullptr) *scratch_bytes = bytes;
  void* scratch = ::operator new(bytes, std::align_val_t(64));
  std::memset(scratch, 0xff, bytes);
  std::vector<T> dst(test::count_of_dst(p));
  std::memset(static_cast<void*>(dst.data()), 0xff, dst.size() * sizeof(T));
  family::run(*plan, p, src.data(), wei.data(), bias, dst.data(), scratch, parallel);
  ::operator delete(scratch, std::align_val_t(64));
  return dst;
}

// The first element that differs, or -1. NaN equals NaN, and zeros of both signs each other.
template <class T>
int64_t first_difference(const std::vector<T>& found, const std::vector<T>& wanted) {
  for (size_t i = 0; i < wanted.size(); ++i) {
    const double a = test::widen(found[i]), b = test::widen(wanted[i]);
    if (a != b && (a == a || b == b)) return static_cast<int64_t>(i);
  }
  return -1;
}

// Whether the family is to take the case: the problem is valid, and nothing is empty.
bool is_taken(const Case& c, DataType dtype) {
  if (!c.attributes.transposed()) return false;
  try {
    const ConvProblem p = c.problem(dtype);
    if (test::count_of(c.x) == 0 || test::count_of(c.w) == 0 || test::count_of_dst(p) == 0) return false;
    EXPECT(family::takes(p), "is not taken: ", c.describe());
    return true;
  } catch (const Error&) {
    return false;
  }
}

template <class T>
void check(CaseMaker& maker, const Case& c, DataType dtype, bool infinite = false) {
  const ConvProblem p = c.problem(dtype);
  std::vector<T> src = maker.values<T>(test::count_of(c.x)), wei = maker.values<T>(test::count_of(c.w));
  if (infinite) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    const double values[] = {kInfinity, -kInfinity, kInfinity - kInfinity};
    for (size_t i = 0; i < wei.size(); i += maker.draw(1, 20)) wei[i] = test::narrow<T>(values[maker.draw(0, 2)]);
    for (size_t i = 7; i < src.size(); i += maker.draw(1, 40)) src[i] = test::narrow<T>(values[maker.draw(0, 2)]);
  }
  const std::vector<T> values = maker.values<T>(p.oc);
  const T* bias = c.bias ? values.data() : nullptr;
  const std::vector<T> expected = test::oracle(p, Op::kConvTranspose, src.data(), wei.data(), bias);
  for (const bool constant : {true, false}) {
    for (const int threads : {1, 4}) {
      const std::vector<T> dst =
          result(dtype, p, src, wei, bias, constant, threads == 1 ? serial() : on_threads(threads));
      const int64_t at = first_difference(dst, expected);
      EXPECT(at < 0, "type ", static_cast<int>(dtype), ", ", threads, " threads, element ", at, ": ",
             test::widen(dst[at]), " not ", test::widen(expected[at]), constant ? "" : ", run-time weights", ", ",
             c.describe());
    }
  }
}

void check_types(CaseMaker& maker, const Case& c, bool infinite = false) {
  check<float>(maker, c, DataType::kFloat, infinite);
  check<double>(maker, c, DataType::kDouble, infinite);
  check<Float16>(maker, c, DataType::kFloat16, infinite);
  check<Bfloat16>(maker, c, DataType::kBfloat16, infinite);
}

TEST(random_problems) {
  CaseMaker maker(31);
  int taken = 0;
  for (int i = 0; i < 3000; ++i) {
    Case c = maker.make(static_cast<int>(maker.draw(1, i % 10 == 0 ? 6 : 3)));
    c.residual = false;
    const bool infinite = i % 4 == 0;
    if (infinite) c.attributes.activation = {};
    // Beyond what the maker draws.
    const int last = static_cast<int>(c.attributes.strides.size()) - 1, any = static_cast<int>(maker.draw(0, last));
    if (i % 3 == 0) c.attributes.strides[any] = maker.draw(1, 12);
    if (i % 5 == 0) c.attributes.dilations[any] = maker.draw(1, 12);
    if (!is_taken(c, DataType::kFloat)) continue;
    ++taken;
    check_types(maker, c, infinite);
  }
  EXPECT(taken > 300, "only ", taken, " problems were taken");
}

struct Sizes {
  Shape x, w;
  std::vector<int64_t> strides, dilations, pads;
  int64_t group = 1;
  bool last = false;  // channels come last
};

Case case_of(const Sizes& sizes) {
  Case c;
  const int ndims = static_cast<int>(sizes.strides.size());
  c.attributes = test::attributes(ConvOp::kConvTranspose, ndims);
  c.attributes.strides = sizes.strides;
  c.attributes.dilations = sizes.dilations;
  c.attributes.pads = sizes.pads;
  c.attributes.group = sizes.group;
  c.x = sizes.x;
  c.w = sizes.w;
  if (sizes.last) {
    for (auto* perm : {&c.attributes.x_perm, &c.attributes.y_perm}) {
      (*perm)[1] = ndims + 1;
      for (int a = 0; a < ndims; ++a) (*perm)[a + 2] = a + 1;
    }
    c.x = {sizes.x[0]};
    c.x.insert(c.x.end(), sizes.x.begin() + 2, sizes.x.end());
    c.x.push_back(sizes.x[1]);
  }
  return c;
}

const Sizes kSizes[] = {
    // plain products; src in place and not; few rows and many channels
    {{2, 300, 31, 5}, {300, 3, 1, 1}, {1, 1}, {1, 1}, {0, 0, 0, 0}},
    {{1, 600, 7}, {600, 70, 1}, {1}, {1}, {0, 0}},
    {{1, 600, 40, 20}, {600, 40, 1, 1}, {1, 1}, {1, 1}, {0, 0, 0, 0}},
    {{1, 600, 40, 20}, {600, 40, 1, 1}, {1, 1}, {1, 1}, {0, 0, 0, 0}, 1, true},
    {{1, 40, 9, 30}, {40, 8, 4, 4}, {4, 4}, {1, 1}, {0, 0, 0, 0}},
    {{1, 40, 9, 30}, {40, 8, 4, 4}, {4, 4}, {1, 1}, {1, 2, 3, 1}, 1, true},
    // overlapping taps
    {{2, 24, 17, 33}, {24, 5, 4, 4}, {2, 2}, {1, 1}, {1, 1, 1, 1}},
    {{2, 24, 17, 33}, {24, 5, 4, 4}, {2, 2}, {1, 1}, {1, 1, 1, 1}, 1, true},
    {{1, 30, 70, 40}, {30, 2, 4, 17}, {1, 1}, {1, 1}, {0, 0, 0, 0}},
    {{1, 20, 6, 7, 8}, {20, 6, 3, 3, 3}, {2, 2, 2}, {1, 1, 1}, {1, 1, 1, 1, 1, 1}, 2},
    {{2, 33, 18, 15, 2}, {33, 19, 5, 1, 1}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0, 0, 0, 0}},
    {{1, 61, 2, 24, 6}, {61, 31, 1, 1, 7}, {1, 1, 1}, {1, 1, 5}, {0, 0, 0, 0, 0, 0}},
    // gaps: most residues, some, of the first axis
    {{1, 47, 174}, {47, 33, 2}, {14}, {7}, {4, 4}},
    {{1, 37, 39}, {37, 13, 3}, {4}, {1}, {1, 0}},
    {{1, 39, 29, 9}, {39, 14, 1, 1}, {2, 2}, {6, 6}, {0, 0, 0, 0}},
    {{1, 22, 6, 1}, {22, 8, 4, 4}, {8, 7}, {1, 1}, {0, 0, 0, 0}, 2},
    {{1, 22, 6, 1}, {22, 8, 4, 4}, {8, 7}, {1, 1}, {0, 0, 0, 0}, 2, true},
    {{1, 20, 19, 5}, {20, 7, 2, 3}, {4, 3}, {6, 2}, {2, 0, 0, 2}},
    // thousands of taps, of which many meet nothing; single positions
    {{1, 5, 9}, {5, 1, 5000}, {1300}, {1}, {0, 100}},
    {{2, 4, 7}, {4, 2, 4600}, {9000}, {1}, {3, 5}, 2},
    {{1, 3, 40}, {3, 2, 4500}, {1}, {1}, {2000, 50}},
    {{1, 3, 5, 6}, {3, 2, 70, 66}, {9, 20}, {1, 2}, {3, 60, 8, 0}},
    {{1, 30, 300}, {30, 1, 8}, {5000}, {3}, {0, 0}},
    {{3, 90, 1, 1}, {90, 20, 4, 5}, {2, 3}, {1, 2}, {1, 0, 0, 1}},
    // far dilations
    {{1, 5, 500}, {5, 4, 3}, {1}, {4000}, {10, 0}},
    {{1, 3, 40, 3}, {3, 2, 2, 3}, {2, 3}, {900, 1}, {0, 1, 0, 0}},
    // sums of many channels
    {{1, 20000, 3}, {20000, 2, 2}, {5000}, {5000}, {0, 0}},
    {{1, 17000, 20}, {17000, 1, 1}, {1}, {1}, {0, 0}},
    // many groups
    {{1, 200, 12}, {200, 1, 3}, {2}, {1}, {1, 1}, 200},
    {{2, 60, 5, 7}, {60, 3, 2, 2}, {1, 2}, {1, 1}, {0, 0, 0, 0}, 60},
};

TEST(chosen_problems) {
  CaseMaker maker(32);
  int64_t at = 0;
  for (const Sizes& sizes : kSizes) {
    Case c = case_of(sizes);
    c.bias = ++at % 4 != 0;
    if (at % 3 == 0) c.attributes.activation = {0.25f, -60.0f, 90.0f};
    if (!is_taken(c, DataType::kFloat)) continue;
    if (!test::kSanitized) {
      check_types(maker, c);
    } else if (at % 4 == 0) {  // types in their turns
      check<float>(maker, c, DataType::kFloat, false);
    } else if (at % 4 == 1) {
      check<double>(maker, c, DataType::kDouble, false);
    } else if (at % 4 == 2) {
      check<Float16>(maker, c, DataType::kFloat16, false);
    } else {
      check<Bfloat16>(maker, c, DataType::kBfloat16, false);
    }
  }
}

// Numbers that round: the order of the sums is that of one thread.
TEST(threads_do_not_change_a_sum) {
  for (const Sizes& sizes : kSizes) {
    const Case c = case_of(sizes);
    const ConvProblem p = c.problem(DataType::kFloat);
    std::mt19937 random(33);
    const std::vector<float> src = test::normal_numbers(random, test::count_of(c.x));
    const std::vector<float> wei = test::normal_numbers(random, test::count_of(c.w));
    const auto with = [&](const Parallel& parallel) {
      return result<float>(DataType::kFloat, p, src, wei, nullptr, true, parallel);
    };
    const std::vector<float> one = with(serial());
    for (const int threads : {3, 4, 16}) {
      const std::vector<float> many = with(on_threads(threads));
      EXPECT(std::memcmp(one.data(), many.data(), one.size() * sizeof(float)) == 0, threads, " threads, ",
             c.describe());
    }
  }
}

// Neither what lies between taps nor padding is anywhere in memory.
TEST(memory_does_not_grow_with_strides_dilations_and_pads) {
  constexpr int64_t kFar = int64_t{1} << 28;
  const Sizes far[] = {
      {{1, 1, 10}, {1, 1, 3}, {1}, {kFar}, {kFar, kFar}},
      {{1, 2, 3}, {2, 5, 4}, {kFar}, {kFar}, {kFar, 4 * kFar - 6}},
      {{1, 40, 2, 2}, {40, 40, 2, 2}, {kFar, 1}, {1, kFar}, {kFar - 2, kFar - 1, 0, 0}},
      {{1, 2, 9, 9}, {2, 2, 900, 5}, {900, 1}, {1, 1}, {3000, 0, 5099, 0}},
  };
  CaseMaker maker(34);
  for (const Sizes& sizes : far) {
    const Case c = case_of(sizes);
    const ConvProblem p = c.problem(DataType::kFloat);
    const std::vector<float> src = maker.values<float>(test::count_of(c.x));
    const std::vector<float> wei = maker.values<float>(test::count_of(c.w));
    const std::vector<float> expected = test::oracle<float>(p, Op::kConvTranspose, src.data(), wei.data(), nullptr);
    EXPECT(expected.size() < 10000, expected.size(), " outputs, ", c.describe());
    size_t bytes = 0;
    const std::vector<float> dst = result<float>(DataType::kFloat, p, src, wei, nullptr, true, serial(), &bytes);
    EXPECT(bytes < 4 << 20, bytes, " bytes, ", c.describe());
    EXPECT(first_difference(dst, expected) < 0, c.describe());
  }
}

// The error of a sum is not larger than that of ONNX Runtime's order: blocks of 128 channels, then taps.
TEST(sums_are_as_exact_as_the_usual_ones) {
  for (const Sizes& sizes :
       {Sizes{{1, 4000, 24}, {4000, 2, 1}, {1}, {1}, {0, 0}}, Sizes{{1, 300, 20}, {300, 2, 9}, {1}, {1}, {0, 0}},
        Sizes{{1, 20000, 24}, {20000, 1, 1}, {1}, {1}, {0, 0}}}) {
    const Case c = case_of(sizes);
    const ConvProblem p = c.problem(DataType::kFloat);
    std::mt19937 random(35);
    const std::vector<float> src = test::normal_numbers(random, test::count_of(c.x));
    const std::vector<float> wei = test::normal_numbers(random, test::count_of(c.w));
    const std::vector<double> exact =
        test::oracle<double>(p, Op::kConvTranspose, std::vector<double>(src.begin(), src.end()).data(),
                             std::vector<double>(wei.begin(), wei.end()).data(), nullptr);
    const std::vector<float> found = result<float>(DataType::kFloat, p, src, wei, nullptr, true, serial());
    double ours = 0, usual = 0;
    const int64_t length = p.dst_size[0];
    for (int64_t oc = 0; oc < p.oc; ++oc) {
      std::vector<float> sums(length);
      for (int64_t k = 0; k < p.ker[0]; ++k) {
        for (int64_t x = 0; x < p.src_size[0]; ++x) {
          float sum = 0;
          for (int64_t begin = 0; begin < p.ic; begin += 128) {
            float block = 0;
            for (int64_t i = begin; i < std::min(p.ic, begin + 128); ++i) {
              block = std::fma(src[i * p.src_c + x], wei[i * p.wei_0 + oc * p.wei_1 + k], block);
            }
            sum += block;
          }
          sums[x + k] += sum;
        }
      }
      for (int64_t y = 0; y < length; ++y) {
        const int64_t at = oc * p.dst_c + y;
        ours += std::pow(found[at] - exact[at], 2);
        usual += std::pow(sums[y] - exact[at], 2);
      }
    }
    EXPECT(ours < 1.3 * usual, "squared errors ", ours, ", usual ", usual, ", ", c.describe());
  }
}

}  // namespace
}  // namespace ortconv

// The tiled kernels on what they are for: long, deep and far-reaching convolutions, and weights that are not finite.
#include <cmath>
#include <cstring>
#include <limits>
#include <new>

#include "base/parallel.h"
#include "ops/convolution.h"
#include "testing/cases.h"
#include "testing/on_threads.h"
#include "testing/test.h"

namespace ortconv {
namespace {

using test::Case;
using test::CaseMaker;

// A node's run, with scratch full of NaN and of exactly the size that is asked for.
template <class T>
std::vector<T> result(DataType dtype, kernels::Op op, const ConvProblem& p, const std::vector<T>& src,
                      const std::vector<T>& wei, const T* bias, Weights lifetime, const Parallel& parallel,
                      size_t* scratch_bytes = nullptr) {
  const char* const tiles = op == kernels::Op::kConv ? "im2col" : "col2im";
  const Convolution convolution(dtype, op, p, wei.data(), lifetime, ArchFlags::host(), {tiles, "", "", ""});
  const auto choice = convolution.choose(p, wei.data());
  const size_t bytes = convolution.scratch_bytes(*choice, parallel.threads);
  if (scratch_bytes != nullptr) *scratch_bytes = bytes;
  void* scratch = ::operator new(bytes, std::align_val_t(64));
  std::memset(scratch, 0xff, bytes);
  std::vector<T> dst(test::count_of_dst(p));
  convolution.run(*choice, src.data(), wei.data(), bias, nullptr, dst.data(), scratch, parallel);
  ::operator delete(scratch, std::align_val_t(64));
  return dst;
}

struct Sizes {
  ConvOp op;
  Shape x, w;
  std::vector<int64_t> strides, dilations, pads;
  int64_t group = 1;
};

Case case_of(const Sizes& sizes) {
  Case c;
  c.attributes = test::attributes(sizes.op, static_cast<int>(sizes.strides.size()));
  c.attributes.strides = sizes.strides;
  c.attributes.dilations = sizes.dilations;
  c.attributes.pads = sizes.pads;
  c.attributes.group = sizes.group;
  c.x = sizes.x;
  c.w = sizes.w;
  return c;
}

constexpr ConvOp kConv = ConvOp::kConv, kTransposed = ConvOp::kConvTranspose;

const Sizes kLarge[] = {
    // more taps than a tile has columns, and than other kernels take; strides beyond the taps and short of them
    {kConv, {1, 1, 9000}, {3, 1, 5000}, {700}, {1}, {30, 40}},
    {kConv, {2, 2, 6000}, {2, 1, 5500}, {40}, {1}, {200, 300}, 2},
    {kConv, {1, 1, 5700}, {1, 1, 5000}, {1}, {1}, {0, 0}},
    {kConv, {1, 2, 9}, {2, 2, 4500}, {1}, {2}, {8995, 8995}},
    {kConv, {1, 2, 70, 75}, {3, 2, 68, 66}, {1, 3}, {1, 1}, {1, 2, 0, 1}},
    {kTransposed, {1, 5, 9}, {5, 1, 5000}, {1300}, {1}, {0, 100}},
    {kTransposed, {2, 4, 7}, {4, 2, 4600}, {9000}, {1}, {3, 5}, 2},
    {kTransposed, {1, 3, 40}, {3, 2, 4500}, {1}, {1}, {2000, 50}},
    {kTransposed, {1, 7, 40}, {7, 1, 4500}, {1}, {1}, {2000, 50}},
    {kTransposed, {1, 3, 5, 6}, {3, 2, 70, 66}, {9, 20}, {1, 2}, {3, 60, 8, 0}},
    {kTransposed, {1, 30, 300}, {30, 1, 8}, {5000}, {3}, {0, 0}},
    // far dilations
    {kConv, {2, 5, 9000}, {4, 5, 3}, {1}, {4000}, {0, 0}},
    {kConv, {1, 6, 3000}, {6, 1, 3}, {1}, {1400}, {1400, 1400}, 6},
    {kTransposed, {1, 5, 500}, {5, 4, 3}, {1}, {4000}, {10, 0}},
    {kTransposed, {1, 3, 40, 3}, {3, 2, 2, 3}, {2, 3}, {900, 1}, {0, 1, 0, 0}},
    // sums of many channels
    {kConv, {1, 20000, 5}, {3, 20000, 2}, {1}, {5000}, {2500, 2500}},
    {kTransposed, {1, 20000, 3}, {20000, 2, 2}, {5000}, {5000}, {0, 0}},
};

TEST(large_convolutions) {
  CaseMaker maker(21);
  int at = 0;
  for (const Sizes& sizes : kLarge) {
    const Case c = case_of(sizes);
    // The first four types are those of floating point. With a sanitizer each convolution is of one of them.
    ++at;
    for (const DataType dtype : {kDataTypes[0], kDataTypes[1 + at % 3]}) {
      if (test::kSanitized && (dtype == kDataTypes[0]) != (at % 2 == 0)) continue;
      with_type(dtype, [&](auto zero) {
        using T = decltype(zero);
        const ConvProblem p = c.problem(dtype);
        const std::vector<T> src = maker.values<T>(test::count_of(c.x)), wei = maker.values<T>(test::count_of(c.w));
        const std::vector<T> bias = maker.values<T>(p.oc);
        const std::vector<T> expected = test::oracle(p, c.op(), src.data(), wei.data(), bias.data());
        for (const Weights lifetime : {Weights::kConstant, Weights::kOfRun}) {
          for (const int count : {1, 3}) {
            const std::vector<T> dst =
                result(dtype, c.op(), p, src, wei, bias.data(), lifetime, count == 1 ? serial() : on_threads(count));
            EXPECT(std::memcmp(dst.data(), expected.data(), dst.size() * sizeof(T)) == 0, "type ",
                   static_cast<int>(dtype), ", ", count, " threads, ", c.describe());
          }
        }
      });
    }
  }
}

// Numbers that round: the order of the sums is that of one thread.
TEST(threads_do_not_change_a_sum) {
  std::vector<Sizes> all(std::begin(kLarge), std::end(kLarge));
  all.push_back({kTransposed, {1, 60, 120}, {60, 1, 5120}, {1280}, {1}, {0, 0}});  // threads share the positions of dst
  for (const Sizes& sizes : all) {
    const Case c = case_of(sizes);
    const ConvProblem p = c.problem(DataType::kFloat);
    std::mt19937 random(22);
    const std::vector<float> src = test::normal_numbers(random, test::count_of(c.x));
    const std::vector<float> wei = test::normal_numbers(random, test::count_of(c.w));
    for (const Weights lifetime : {Weights::kConstant, Weights::kOfRun}) {
      const auto with = [&](const Parallel& parallel) {
        return result<float>(DataType::kFloat, c.op(), p, src, wei, nullptr, lifetime, parallel);
      };
      const std::vector<float> one = with(serial()), three = with(on_threads(3)), many = with(on_threads(16));
      EXPECT(std::memcmp(one.data(), three.data(), one.size() * sizeof(float)) == 0, "3 threads, ", c.describe());
      EXPECT(std::memcmp(one.data(), many.data(), one.size() * sizeof(float)) == 0, "16 threads, ", c.describe());
    }
  }
}

// Neither what lies between taps nor padding is anywhere in memory.
TEST(memory_does_not_grow_with_strides_dilations_and_pads) {
  constexpr int64_t kFar = int64_t{1} << 28;
  const Sizes far[] = {
      {kConv, {1, 1, 10}, {1, 1, 3}, {1}, {kFar}, {kFar, kFar}},
      {kConv, {1, 1, 10}, {1, 1, 3}, {kFar}, {1}, {kFar, kFar}},
      {kConv, {1, 2, 3, 3}, {4, 2, 3, 3}, {1, 1}, {kFar, kFar}, {kFar, kFar, kFar, kFar}},
      {kConv, {1, 4, 3, 3}, {4, 1, 3, 3}, {kFar, 1}, {1, kFar}, {kFar, kFar, kFar, kFar}, 4},
      {kTransposed, {1, 1, 10}, {1, 1, 3}, {1}, {kFar}, {kFar, kFar}},
      {kTransposed, {1, 2, 3}, {2, 5, 4}, {kFar}, {kFar}, {kFar, 4 * kFar - 6}},
      {kTransposed, {1, 40, 2, 2}, {40, 40, 2, 2}, {kFar, 1}, {1, kFar}, {kFar - 2, kFar - 1, 0, 0}},
  };
  CaseMaker maker(23);
  for (const Sizes& sizes : far) {
    const Case c = case_of(sizes);
    const ConvProblem p = c.problem(DataType::kFloat);
    const std::vector<float> src = maker.values<float>(test::count_of(c.x));
    const std::vector<float> wei = maker.values<float>(test::count_of(c.w));
    const std::vector<float> expected = test::oracle<float>(p, c.op(), src.data(), wei.data(), nullptr);
    EXPECT(expected.size() < 10000, expected.size(), " outputs, ", c.describe());
    size_t bytes = 0;
    const std::vector<float> dst =
        result<float>(DataType::kFloat, c.op(), p, src, wei, nullptr, Weights::kConstant, serial(), &bytes);
    EXPECT(bytes < 4 << 20, bytes, " bytes, ", c.describe());
    EXPECT(std::memcmp(dst.data(), expected.data(), dst.size() * sizeof(float)) == 0, c.describe());
  }
}

// Infinities and NaN among the weights, and in src, reach the outputs of their taps and no others.
template <class T>
void check_infinities(CaseMaker& maker, const Case& c, DataType dtype, int among) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const ConvProblem p = c.problem(dtype);
  std::vector<T> src = maker.values<T>(test::count_of(c.x)), wei = maker.values<T>(test::count_of(c.w));
  const double values[] = {kInfinity, -kInfinity, kInfinity - kInfinity};
  for (auto* tensor : {&wei, &src}) {
    for (size_t i = tensor == &src ? 7 : 0; i < tensor->size(); i += maker.draw(1, tensor == &src ? 40 : among)) {
      (*tensor)[i] = test::narrow<T>(values[maker.draw(0, 2)]);
    }
  }
  const std::vector<T> expected = test::oracle<T>(p, c.op(), src.data(), wei.data(), nullptr);
  for (const Weights lifetime : {Weights::kConstant, Weights::kOfRun}) {
    const std::vector<T> dst = result<T>(dtype, c.op(), p, src, wei, nullptr, lifetime, serial());
    for (size_t i = 0; i < dst.size(); ++i) {
      const double found = test::widen(dst[i]), wanted = test::widen(expected[i]);
      EXPECT(found == wanted || (found != found && wanted != wanted), "type ", static_cast<int>(dtype), ", element ", i,
             ": ", found, " not ", wanted, ", ", c.describe());
    }
  }
}

TEST(weights_that_are_not_finite) {
  CaseMaker maker(24);
  int taken = 0;
  for (int i = 0; i < 400; ++i) {
    Case c = maker.make(static_cast<int>(maker.draw(1, 3)));
    c.residual = c.bias = false;
    c.attributes.activation = {};
    try {
      const ConvProblem p = c.problem(DataType::kFloat);
      if (test::count_of(c.x) * test::count_of(c.w) * test::count_of_dst(p) == 0) continue;
    } catch (const Error&) {
      continue;
    }
    ++taken;
    const int among = i % 4 == 0 ? 1 : i % 4 == 1 ? 9 : 200;
    check_infinities<float>(maker, c, DataType::kFloat, among);
    check_infinities<double>(maker, c, DataType::kDouble, among);
    check_infinities<Float16>(maker, c, DataType::kFloat16, among);
    check_infinities<Bfloat16>(maker, c, DataType::kBfloat16, among);
  }
  EXPECT(taken > 100, "only ", taken, " cases were taken");
}

}  // namespace
}  // namespace ortconv

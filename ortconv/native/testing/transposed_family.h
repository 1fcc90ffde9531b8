// What the tests of kernel families share that compute transposed convolutions of any type and layout. A Family has the
// functions of one as static members: takes, make_plan, scratch_bytes and run.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <new>
#include <random>
#include <vector>

#include "base/parallel.h"
#include "testing/cases.h"
#include "testing/on_threads.h"
#include "testing/test.h"

namespace ortconv::test {

// A run, with scratch full of NaN and of exactly the size that is asked for.
template <class Family, class T>
std::vector<T> result(DataType dtype, const ConvProblem& p, const std::vector<T>& src, const std::vector<T>& wei,
                      const T* bias, bool constant, const Parallel& parallel, size_t* scratch_bytes = nullptr,
                      const ArchFlags& arch = ArchFlags::host()) {
  const auto plan = Family::make_plan(p, dtype, constant ? wei.data() : nullptr, arch);
  const size_t bytes = Family::scratch_bytes(*plan, p, parallel.threads);
  if (scratch_bytes != nullptr) *scratch_bytes = bytes;
  void* scratch = ::operator new(bytes, std::align_val_t(64));
  std::memset(scratch, 0xff, bytes);
  std::vector<T> dst(count_of_dst(p));
  std::memset(static_cast<void*>(dst.data()), 0xff, dst.size() * sizeof(T));
  Family::run(*plan, p, src.data(), wei.data(), bias, dst.data(), scratch, parallel);
  ::operator delete(scratch, std::align_val_t(64));
  return dst;
}

// The first element that differs, or -1. NaN equals NaN, and zeros of both signs each other.
template <class T>
int64_t first_difference(const std::vector<T>& found, const std::vector<T>& wanted) {
  for (size_t i = 0; i < wanted.size(); ++i) {
    const double a = widen(found[i]), b = widen(wanted[i]);
    if (a != b && (a == a || b == b)) return static_cast<int64_t>(i);
  }
  return -1;
}

template <class Family, class T>
void check(CaseMaker& maker, const Case& c, DataType dtype, bool infinite = false) {
  const ConvProblem p = c.problem(dtype);
  std::vector<T> src = maker.values<T>(count_of(c.x)), wei = maker.values<T>(count_of(c.w));
  if (infinite) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    const double values[] = {kInfinity, -kInfinity, kInfinity - kInfinity};
    for (size_t i = 0; i < wei.size(); i += maker.draw(1, 20)) wei[i] = narrow<T>(values[maker.draw(0, 2)]);
    for (size_t i = 7; i < src.size(); i += maker.draw(1, 40)) src[i] = narrow<T>(values[maker.draw(0, 2)]);
  }
  const std::vector<T> values = maker.values<T>(p.oc);
  const T* bias = c.bias ? values.data() : nullptr;
  const std::vector<T> expected = oracle(p, kernels::Op::kConvTranspose, src.data(), wei.data(), bias);
  for (const bool constant : {true, false}) {
    for (const int threads : {1, 4}) {
      const std::vector<T> dst =
          result<Family>(dtype, p, src, wei, bias, constant, threads == 1 ? serial() : on_threads(threads));
      const int64_t at = first_difference(dst, expected);
      EXPECT(at < 0, "type ", static_cast<int>(dtype), ", ", threads, " threads, element ", at, ": ", widen(dst[at]),
             " not ", widen(expected[at]), constant ? "" : ", run-time weights", ", ", c.describe());
    }
  }
}

template <class Family>
void check_types(CaseMaker& maker, const Case& c, bool infinite = false) {
  check<Family, float>(maker, c, DataType::kFloat, infinite);
  check<Family, double>(maker, c, DataType::kDouble, infinite);
  check<Family, Float16>(maker, c, DataType::kFloat16, infinite);
  check<Family, Bfloat16>(maker, c, DataType::kBfloat16, infinite);
}

// Whether there is a transposed convolution to compute: the problem is valid, and nothing is empty.
inline bool is_a_problem(const Case& c, DataType dtype) {
  if (!c.attributes.transposed()) return false;
  try {
    return count_of(c.x) > 0 && count_of(c.w) > 0 && count_of_dst(c.problem(dtype)) > 0;
  } catch (const Error&) {
    return false;
  }
}

// A problem by hand.
struct Sizes {
  Shape x, w;
  std::vector<int64_t> strides, dilations, pads;
  int64_t group = 1;
  bool last = false;  // channels come last
};

inline Case case_of(const Sizes& sizes) {
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

// All types, or with a sanitizer one of them.
template <class Family>
void check_in_turns(CaseMaker& maker, const Case& c, int64_t turn) {
  if (!kSanitized) return check_types<Family>(maker, c);
  if (turn % 4 == 0) check<Family, float>(maker, c, DataType::kFloat);
  if (turn % 4 == 1) check<Family, double>(maker, c, DataType::kDouble);
  if (turn % 4 == 2) check<Family, Float16>(maker, c, DataType::kFloat16);
  if (turn % 4 == 3) check<Family, Bfloat16>(maker, c, DataType::kBfloat16);
}

// Numbers that round: the order of the sums is that of one thread.
template <class Family>
void check_threads(const Case& c) {
  const ConvProblem p = c.problem(DataType::kFloat);
  std::mt19937 random(33);
  const std::vector<float> src = normal_numbers(random, count_of(c.x)), wei = normal_numbers(random, count_of(c.w));
  const auto with = [&](const Parallel& parallel) {
    return result<Family, float>(DataType::kFloat, p, src, wei, nullptr, true, parallel);
  };
  const std::vector<float> one = with(serial());
  for (const int threads : {3, 4, 16}) {
    const std::vector<float> many = with(on_threads(threads));
    EXPECT(std::memcmp(one.data(), many.data(), one.size() * sizeof(float)) == 0, threads, " threads, ", c.describe());
  }
}

// The error of sums along one axis of one image is not larger than that of ONNX Runtime's order: blocks of 128
// channels, then taps.
template <class Family>
void expect_usual_errors(const Sizes& sizes) {
  constexpr int64_t kBlock = 128;
  const bool fuses = ArchFlags::host().avx2_fma || ArchFlags::host().neon;
  const Case c = case_of(sizes);
  const ConvProblem p = c.problem(DataType::kFloat);
  std::mt19937 random(35);
  const std::vector<float> src = normal_numbers(random, count_of(c.x));
  const std::vector<float> wei = normal_numbers(random, count_of(c.w));
  const std::vector<double> exact =
      oracle<double>(p, kernels::Op::kConvTranspose, std::vector<double>(src.begin(), src.end()).data(),
                     std::vector<double>(wei.begin(), wei.end()).data(), nullptr);
  const std::vector<float> found = result<Family, float>(DataType::kFloat, p, src, wei, nullptr, true, serial());
  double ours = 0, usual = 0;
  for (int64_t oc = 0; oc < p.oc; ++oc) {
    std::vector<float> sums(p.dst_size[0]);
    for (int64_t k = 0; k < p.ker[0]; ++k) {
      for (int64_t x = 0; x < p.src_size[0]; ++x) {
        const int64_t y = x * p.stride[0] + k * p.dilation[0] - p.pad[0];
        if (y < 0 || y >= p.dst_size[0]) continue;
        float sum = 0;
        for (int64_t begin = 0; begin < p.ic; begin += kBlock) {
          float block = 0;
          for (int64_t i = begin; i < std::min(p.ic, begin + kBlock); ++i) {
            const float a = src[i * p.src_c + x], b = wei[i * p.wei_0 + oc * p.wei_1 + k];
            block = fuses ? std::fma(a, b, block) : block + a * b;
          }
          sum += block;
        }
        sums[y] += sum;
      }
    }
    for (int64_t y = 0; y < p.dst_size[0]; ++y) {
      ours += std::pow(found[oc * p.dst_c + y] - exact[oc * p.dst_c + y], 2);
      usual += std::pow(sums[y] - exact[oc * p.dst_c + y], 2);
    }
  }
  EXPECT(ours < 1.3 * usual, "squared errors ", ours, ", usual ", usual, ", ", c.describe());
}

}  // namespace ortconv::test

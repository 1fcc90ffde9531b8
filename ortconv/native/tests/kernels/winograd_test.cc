// Every ISA path this CPU has against a sum in double.
//
// Minimal filtering takes sums of neighbours apart again, so the error of an element is bounded by what the largest
// elements of src allow, not by its own terms: n products with weights w, |error| <= n * eps * max|src| * sum|w|.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/arch.h"
#include "kernels/conv/conv.h"
#include "kernels/winograd/plan.h"

using namespace ortconv;
using namespace ortconv::kernels;
using winograd::Windows;

namespace {

int failures = 0, checked = 0, separate = 0, summed_axes = 0;

struct Shape {
  Op op = Op::kConvTranspose;
  std::vector<int64_t> src, ker, stride, dilation, pad, pad_end;  // pad_end may be negative: dst beyond the full extent
  int64_t mb = 1, g = 1, ic = 1, oc = 1;
  bool bias = true;

  std::string describe() const {
    std::string s = op == Op::kConv ? "conv" : "convtr";
    const auto add = [&](const char* name, const std::vector<int64_t>& v) {
      s += std::string(" ") + name;
      for (const int64_t x : v) s += " " + std::to_string(x);
    };
    add("mb g ic oc", {mb, g, ic, oc});
    add("src", src), add("ker", ker), add("stride", stride), add("dil", dilation), add("pad", pad), add("end", pad_end);
    return s + (bias ? " bias" : "");
  }
};

struct Aligned {
  explicit Aligned(size_t bytes) : raw(bytes + 64), data(raw.data()) {
    data += (64 - reinterpret_cast<uintptr_t>(data) % 64) % 64;
    std::memset(data, 0xff, bytes);  // NaNs: scratch may hold anything
  }
  std::vector<char> raw;
  char* data;
};

void serial(void*, int64_t n, void (*fn)(void*, int64_t), void* arg) {
  for (int64_t i = 0; i < n; ++i) fn(arg, i);
}

void threaded(void*, int64_t n, void (*fn)(void*, int64_t), void* arg) {
  std::vector<std::thread> pool;
  for (int64_t i = 0; i < n; ++i) pool.emplace_back(fn, arg, i);
  for (std::thread& t : pool) t.join();
}

ConvProblem problem_of(const Shape& s) {
  ConvProblem p;
  p.ndims = static_cast<int>(s.src.size());
  p.mb = s.mb, p.g = s.g, p.ic = s.ic, p.oc = s.oc;
  int64_t src_points = 1, dst_points = 1, taps = 1;
  for (int a = p.ndims - 1; a >= 0; --a) {
    p.src_size[a] = s.src[a];
    p.ker[a] = s.ker[a], p.stride[a] = s.stride[a], p.dilation[a] = s.dilation[a], p.pad[a] = s.pad[a];
    const int64_t extent = (s.ker[a] - 1) * s.dilation[a] + 1;
    p.dst_size[a] = s.op == Op::kConv ? (s.src[a] + s.pad[a] + s.pad_end[a] - extent) / s.stride[a] + 1
                                      : s.stride[a] * (s.src[a] - 1) + extent - s.pad[a] - s.pad_end[a];
    p.src_x[a] = src_points, p.dst_x[a] = dst_points, p.wei_x[a] = taps;
    src_points *= p.src_size[a], dst_points *= p.dst_size[a], taps *= s.ker[a];
  }
  p.src_c = src_points, p.dst_c = dst_points;
  p.src_n = src_points * s.ic, p.dst_n = dst_points * s.oc;
  p.wei_1 = taps;
  p.wei_0 = taps * (s.op == Op::kConv ? s.ic : s.oc) / s.g;
  return p;
}

// Visits every index of a box.
void each(const std::vector<int64_t>& box, const std::function<void(const std::vector<int64_t>&)>& fn) {
  std::vector<int64_t> at(box.size(), 0);
  while (true) {
    fn(at);
    int a = static_cast<int>(box.size()) - 1;
    while (a >= 0 && ++at[a] == box[a]) at[a--] = 0;
    if (a < 0) return;
  }
}

constexpr DataType kTypes[] = {DataType::kFloat, DataType::kFloat16, DataType::kBfloat16};

float rounded(DataType dtype, float value) {
  return with_float_sum_type(dtype, [&](auto element) {
    round_to(&element, value);
    return widen(element);
  });
}

// Half of the distance between numbers of the type, relative to them, and at least.
double relative_rounding(DataType dtype) {
  return dtype == DataType::kFloat ? 0 : dtype == DataType::kFloat16 ? 0x1p-11 : 0x1p-8;
}
double least_rounding(DataType dtype) { return dtype == DataType::kFloat16 ? 0x1p-25 : 0; }

// A tensor as it is stored.
std::vector<char> stored(DataType dtype, const std::vector<float>& values) {
  std::vector<char> bytes(values.size() * size_of(dtype));
  with_float_sum_type(dtype, [&](auto zero) {
    auto* out = reinterpret_cast<decltype(zero)*>(bytes.data());
    for (const float value : values) round_to(out++, value);
  });
  return bytes;
}

// A problem with inputs and what must come out of it.
struct Example {
  const Shape& shape;
  const DataType dtype;
  const ConvProblem p;
  std::vector<float> src, wei, bias;  // numbers of the type
  std::vector<double> want, weights;  // weights: the sum of their magnitudes

  template <class Next>
  Example(const Shape& s, DataType dtype, Next next) : shape(s), dtype(dtype), p(problem_of(s)) {
    int64_t taps = 1;
    for (const int64_t k : s.ker) taps *= k;
    src.resize(p.mb * p.src_n), wei.resize(s.ic * s.oc / s.g * taps), bias.resize(s.bias ? s.oc : 0);
    for (std::vector<float>* v : {&src, &wei, &bias}) {
      std::generate(v->begin(), v->end(), [&] { return rounded(dtype, next()); });
    }
    want.resize(p.mb * p.dst_n), weights.resize(want.size());
    sum();
  }

  void sum() {
    const Shape& s = shape;
    std::vector<int64_t> box = {s.mb, s.g, s.ic / s.g, s.oc / s.g};
    box.insert(box.end(), s.ker.begin(), s.ker.end());
    // The moving tensor: src for a transposed convolution, dst for a convolution.
    const int64_t* moving = s.op == Op::kConv ? p.dst_size : p.src_size;
    const std::vector<int64_t> positions(moving, moving + p.ndims);
    each(box, [&](const std::vector<int64_t>& i) {
      const int64_t ic = i[1] * (s.ic / s.g) + i[2], oc = i[1] * (s.oc / s.g) + i[3];
      int64_t w = s.op == Op::kConv ? oc * p.wei_0 + i[2] * p.wei_1 : ic * p.wei_0 + i[3] * p.wei_1;
      for (int a = 0; a < p.ndims; ++a) w += i[4 + a] * p.wei_x[a];
      each(positions, [&](const std::vector<int64_t>& x) {
        int64_t from = i[0] * p.src_n + ic * p.src_c, to = i[0] * p.dst_n + oc * p.dst_c;
        for (int a = 0; a < p.ndims; ++a) {
          const int64_t other = x[a] * s.stride[a] - s.pad[a] + i[4 + a] * s.dilation[a];
          const int64_t at_src = s.op == Op::kConv ? other : x[a], at_dst = s.op == Op::kConv ? x[a] : other;
          if (at_src < 0 || at_src >= p.src_size[a] || at_dst < 0 || at_dst >= p.dst_size[a]) return;
          from += at_src * p.src_x[a];
          to += at_dst * p.dst_x[a];
        }
        want[to] += static_cast<double>(src[from]) * wei[w];
        weights[to] += std::fabs(wei[w]);
      });
    });
  }

  double bias_at(int64_t i) const { return bias.empty() ? 0.0 : bias[i % p.dst_n / p.dst_c]; }
};

void fail(const Example& example, const char* isa, const std::string& what) {
  ++failures;
  std::printf("FAIL %s [%s]: %s\n", example.shape.describe().c_str(), isa, what.c_str());
}

std::vector<float> filtered(const Example& e, const winograd::Plan& plan, int threads, bool* tame) {
  std::vector<float> dst(e.want.size(), std::numeric_limits<float>::quiet_NaN());
  std::vector<char> out = stored(e.dtype, dst);
  const std::vector<char> src = stored(e.dtype, e.src), bias = stored(e.dtype, e.bias);
  Aligned scratch(winograd::scratch_bytes(plan, e.p, threads));
  *tame = winograd::run(plan, e.p, src.data(), bias.empty() ? nullptr : bias.data(), out.data(), scratch.data,
                        {nullptr, threads == 1 ? serial : threaded, threads});
  with_float_sum_type(e.dtype, [&](auto zero) {
    const auto* in = reinterpret_cast<const decltype(zero)*>(out.data());
    for (float& value : dst) value = widen(*in++);
  });
  return dst;
}

void check(const Example& e, const ArchFlags& arch, const char* isa, bool exact) {
  ConvProblem part = e.p;  // what a caller knows before the inputs
  part.mb = part.src_n = part.src_c = part.dst_n = part.dst_c = 0;
  for (int a = 0; a < kMaxSpatial; ++a) {
    part.src_size[a] = part.dst_size[a] = part.pad[a] = part.src_x[a] = part.dst_x[a] = 0;
  }
  float largest = 0;
  for (const float x : e.src) largest = std::max(largest, std::fabs(x));
  double terms = static_cast<double>(e.shape.ic / e.shape.g) + 2;
  for (const int64_t k : e.shape.ker) terms *= static_cast<double>(k);
  const std::vector<char> wei = stored(e.dtype, e.wei);
  if (!winograd::takes_weights(e.shape.op, part, e.dtype, wei.data(), arch)) return fail(e, isa, "not taken");
  int plans = 0;
  for (int variant = 0; variant < 2 * part.ndims; ++variant) {
    const Windows windows = variant % 2 == 0 ? Windows::kShared : Windows::kSeparate;
    const int summed = variant / 2;
    winograd::Plan plan;
    if (!winograd::plan_sizes(e.shape.op, part, windows, summed, e.dtype, arch, &plan)) continue;
    winograd::pack_weights(part, wei.data(), &plan);
    ++plans;
    separate += windows == Windows::kSeparate;
    summed_axes += summed > 0;
    bool tame, tame_on_threads;
    const std::vector<float> dst = filtered(e, plan, 1, &tame);
    const std::vector<float> on_threads = filtered(e, plan, 3, &tame_on_threads);
    checked += 2;
    if (!tame || !tame_on_threads) return fail(e, isa, "refused what it was given");
    if (std::memcmp(dst.data(), on_threads.data(), dst.size() * sizeof(float)) != 0) {
      return fail(e, isa, "three threads differ from one");
    }
    for (size_t i = 0; i < dst.size(); ++i) {
      const double bias = e.bias_at(static_cast<int64_t>(i)), sum = e.want[i] + bias;
      const double want = exact ? rounded(e.dtype, static_cast<float>(sum)) : sum;
      const double bound =
          exact ? 0 : std::numeric_limits<float>::epsilon() * terms * (largest * e.weights[i] + std::fabs(bias));
      // Windows reach beyond the terms of an element, whose weights count as well.
      const double slack =
          exact ? 0 : 1e-4 * largest + relative_rounding(e.dtype) * std::fabs(want) + least_rounding(e.dtype);
      if (!(std::fabs(dst[i] - want) <= bound + slack)) {
        return fail(e, isa,
                    "dst[" + std::to_string(i) + "] = " + std::to_string(dst[i]) + ", want " + std::to_string(want));
      }
    }
  }
  if (plans == 0) fail(e, isa, "no plan");
}

template <class Fn>
void on_every_isa(Fn fn) {
  const ArchFlags& host = ArchFlags::host();
  ArchFlags portable, avx2, avx512;
  avx2.avx2_fma = avx512.avx2_fma = avx512.avx512 = true;
  fn(portable, "portable");
  if (host.avx2_fma) fn(avx2, "avx2");
  if (host.avx512) fn(avx512, "avx512");
}

std::vector<Shape> shapes(int random_count) {
  constexpr Op kTr = Op::kConvTranspose, kConv = Op::kConv;
  std::vector<Shape> list = {
      {kTr, {8, 8}, {4, 4}, {2, 2}, {1, 1}, {1, 1}, {1, 1}, 1, 1, 40, 9},
      {kTr, {7, 50}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 2, 1, 17, 15},
      {kTr, {21, 19}, {4, 4}, {2, 2}, {1, 1}, {0, 3}, {-1, 2}, 3, 2, 12, 8},
      {kTr, {6, 9}, {3, 4}, {2, 2}, {1, 1}, {1, 1}, {0, 0}, 1, 1, 5, 3},   // two and one taps beside two and two
      {kTr, {9, 11}, {5, 5}, {2, 2}, {1, 1}, {2, 2}, {1, 1}, 1, 1, 6, 4},  // three and two taps
      {kTr, {9, 11}, {3, 3}, {1, 1}, {2, 3}, {2, 3}, {2, 3}, 2, 1, 6, 5},  // dilations
      {kTr, {30}, {16}, {8}, {1}, {4}, {4}, 2, 1, 19, 3},
      {kTr, {300}, {10}, {5}, {1}, {0}, {0}, 1, 1, 33, 2},
      {kTr, {5, 6, 7}, {3, 3, 3}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, 1, 1, 7, 5},
      {kTr, {4, 5, 6}, {4, 4, 4}, {2, 2, 2}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, 2, 1, 6, 5},
      {kTr, {4, 5, 6}, {3, 2, 3}, {2, 2, 2}, {1, 1, 1}, {1, 0, 1}, {0, 0, 0}, 1, 1, 5, 3},
      {kTr, {3, 3}, {4, 4}, {2, 2}, {1, 1}, {5, 4}, {0, 1}, 1, 1, 5, 3},     // crops whole classes
      {kTr, {1, 1}, {3, 3}, {1, 1}, {1, 1}, {0, 0}, {0, 0}, 2, 1, 5, 3},     // src smaller than a window
      {kTr, {1, 2}, {4, 4}, {2, 2}, {1, 1}, {1, 0}, {-5, -9}, 1, 1, 5, 3},   // dst beyond what src reaches
      {kTr, {60, 90}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 1, 1, 70, 3},  // several blocks
      {kTr, {150, 6}, {4, 2}, {2, 1}, {1, 1}, {1, 0}, {1, 0}, 1, 1, 60, 2},
      {kTr, {11, 700}, {3, 4}, {1, 2}, {1, 1}, {1, 1}, {1, 1}, 1, 1, 50, 3},  // blocks of parts of rows
      {kConv, {14, 15}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 2, 1, 19, 30},
      {kConv, {14, 33}, {2, 3}, {1, 1}, {2, 1}, {0, 2}, {1, 0}, 1, 2, 8, 6},
      {kConv, {99}, {3}, {1}, {4}, {5}, {4}, 1, 1, 11, 8},
      {kConv, {5, 9, 8}, {3, 1, 2}, {1, 1, 1}, {1, 1, 1}, {1, 0, 0}, {1, 0, 1}, 1, 1, 3, 4},
  };
  std::mt19937 random(3);
  const auto pick = [&](std::initializer_list<int64_t> values) { return *(values.begin() + random() % values.size()); };
  while (random_count > 0) {
    Shape s;
    s.op = random() % 4 == 0 ? kConv : kTr;
    const int ndims = static_cast<int>(pick({1, 2, 2, 2, 3}));
    s.g = pick({1, 1, 1, 2, 3});
    s.mb = pick({1, 1, 2, 5});
    s.ic = s.g * pick({1, 2, 5, 17});
    s.oc = s.g * pick({1, 2, 3, 8, 15});
    s.bias = random() % 2;
    bool filters = false;
    for (int a = 0; a < ndims; ++a) {
      s.src.push_back(pick({1, 2, 3, 5, 8, 11, 17}));
      if (ndims <= 2 && random() % 4 == 0) s.src.back() = 37;
      s.stride.push_back(s.op == kConv ? 1 : pick({1, 1, 2, 2, 3, 4}));
      const int64_t stride = s.stride.back();
      s.ker.push_back(stride + static_cast<int64_t>(random() % (2 * stride + 1)));
      s.dilation.push_back(stride > 1 ? 1 : pick({1, 1, 2, 3}));
      s.pad.push_back(pick({0, 0, 1, 2, 3}));
      s.pad_end.push_back(s.op == kConv ? pick({0, 1, 2}) : pick({0, 1, 2, -1, -3}));
      filters |= s.ker.back() > stride;
      if (s.op == kConv) s.src.back() = std::max(s.src.back(), (s.ker.back() - 1) * s.dilation.back() + 1);
    }
    const ConvProblem p = problem_of(s);
    if (!filters || std::any_of(p.dst_size, p.dst_size + ndims, [](int64_t size) { return size < 1; })) continue;
    double work = static_cast<double>(s.mb * s.ic * s.oc / s.g);
    for (int a = 0; a < ndims; ++a) work *= static_cast<double>(s.src[a] * s.ker[a]);
    if (work < 1e6) list.push_back(s), --random_count;
  }
  return list;
}

void any_sizes(int random_count) {
  std::mt19937 random(1);
  const auto uniform = [&] { return std::uniform_real_distribution<float>(-1, 1)(random); };
  const auto integer = [&] { return static_cast<float>(static_cast<int>(random() % 9) - 4); };
  const std::vector<Shape> all = shapes(random_count);
  for (size_t i = 0; i < all.size(); ++i) {
    for (const DataType dtype : {DataType::kFloat, kTypes[1 + i % 2]}) {
      const Example example(all[i], dtype, uniform), of_integers(all[i], dtype, integer);
      on_every_isa([&](const ArchFlags& arch, const char* isa) {
        check(example, arch, isa, false);
        check(of_integers, arch, isa, true);  // small integers, and quarters of them, are exact
      });
    }
  }
  if (separate == 0) ++failures, std::printf("FAIL: no shape had separate windows\n");
  if (summed_axes == 0) ++failures, std::printf("FAIL: no shape had summed axes\n");
}

// What would reach outputs of other elements is refused, wherever it is; and zeros beside it are not.
void refuses_what_is_not_tame(DataType dtype) {
  const Shape s{Op::kConvTranspose, {9, 37}, {4, 4}, {2, 2}, {1, 1}, {1, 1}, {1, 1}, 2, 1, 3, 2};
  std::mt19937 random(7);
  Example example(s, dtype, [&] { return std::uniform_real_distribution<float>(-1, 1)(random); });
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const float wild[] = {kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN(), -1e30f};
  on_every_isa([&](const ArchFlags& arch, const char* isa) {
    for (const Windows windows : {Windows::kShared, Windows::kSeparate}) {
      const std::vector<char> wei = stored(dtype, example.wei);
      const winograd::PlanPtr plan = winograd::make_plan(s.op, example.p, windows, dtype, wei.data(), arch);
      for (size_t i = 0; i < example.src.size(); i += 5) {
        const float value = example.src[i];
        example.src[i] = wild[i % 4];
        bool tame;
        filtered(example, *plan, static_cast<int>(i % 3 + 1), &tame);
        example.src[i] = value;
        ++checked;
        if (tame) fail(example, isa, "took src[" + std::to_string(i) + "] = " + std::to_string(wild[i % 4]));
      }
    }
    for (const float value : wild) {
      std::vector<float> wei = example.wei;
      wei[11] = value;
      if (winograd::takes_weights(s.op, example.p, dtype, stored(dtype, wei).data(), arch)) {
        fail(example, isa, "took a weight of " + std::to_string(value));
      }
    }
  });
}

}  // namespace

// So many random shapes.
int main(int argc, char** argv) {
  any_sizes(argc > 1 ? std::atoi(argv[1]) : 200);
  for (const DataType dtype : kTypes) refuses_what_is_not_tame(dtype);
  if (!ArchFlags::host().avx2_fma) std::printf("SKIP avx2: this CPU lacks AVX2 or FMA\n");
  if (!ArchFlags::host().avx512) std::printf("SKIP avx512: this CPU lacks AVX-512\n");
  std::printf("%d runs, %d plans of separate windows, %d with summed axes, %d failures\n", checked, separate,
              summed_axes, failures);
  return failures == 0 ? 0 : 1;
}

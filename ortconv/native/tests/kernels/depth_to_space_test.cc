// The sub-pixel kernels this CPU has, against the definition in double: every type, number of phases, and way to store.
#include "kernels/depth_to_space/depth_to_space.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "kernels/depth_to_space/plan.h"
#include "kernels/element.h"

using namespace ortconv;
using namespace ortconv::kernels;

namespace {

int failures = 0, checked = 0;

struct Shape {
  std::vector<int64_t> src, ker;
  int64_t mb, g, ic, oc;  // channels of all groups
  bool bias = true, constant = true, activated = false;
  int64_t gap = 0;  // elements between the images and the channels of dst, and in front of it

  std::string describe() const {
    std::string s;
    const auto add = [&](const char* name, const std::vector<int64_t>& v) {
      s += std::string(" ") + name;
      for (const int64_t x : v) s += " " + std::to_string(x);
    };
    add("mb g ic oc", {mb, g, ic, oc}), add("src", src), add("ker", ker), add("gap", {gap});
    return s + (bias ? " bias" : "") + (constant ? "" : " run-time weights") + (activated ? " activated" : "");
  }
};

constexpr Activation kActivation{0.25f, -0.5f, 3.0f};

double activated(double value) {
  return std::clamp<double>(value < 0 ? value * kActivation.slope : value, kActivation.minimum, kActivation.maximum);
}

ConvProblem problem_of(const Shape& s) {
  ConvProblem p;
  p.ndims = static_cast<int>(s.src.size());
  p.mb = s.mb, p.g = s.g, p.ic = s.ic, p.oc = s.oc;
  if (s.activated) p.activation = kActivation;
  int64_t src = 1, dst = 1, taps = 1;
  for (int a = p.ndims - 1; a >= 0; --a) {
    p.src_size[a] = s.src[a], p.ker[a] = p.stride[a] = s.ker[a], p.dilation[a] = 1;
    p.dst_size[a] = s.src[a] * s.ker[a];
    p.src_x[a] = src, p.dst_x[a] = dst, p.wei_x[a] = taps;
    src *= p.src_size[a], dst *= p.dst_size[a], taps *= p.ker[a];
  }
  p.src_c = src, p.src_n = src * s.ic;
  p.dst_c = dst + s.gap, p.dst_n = p.dst_c * s.oc + s.gap;
  p.wei_1 = taps, p.wei_0 = taps * s.oc / s.g;
  return p;
}

void serial(void*, int64_t n, void (*fn)(void*, int64_t), void* arg) {
  for (int64_t i = 0; i < n; ++i) fn(arg, i);
}

void threaded(void*, int64_t n, void (*fn)(void*, int64_t), void* arg) {
  std::vector<std::thread> pool;
  for (int64_t i = 0; i < n; ++i) pool.emplace_back(fn, arg, i);
  for (std::thread& t : pool) t.join();
}

// What an element of dst is to be, and by how much it may differ.
struct Wanted {
  double value, bound;
};

double half_step(float) { return 0x1p-24; }
double half_step(double) { return 0x1p-53; }
double half_step(Float16) { return 0x1p-11; }
double half_step(Bfloat16) { return 0x1p-8; }

template <class T>
struct Example {
  const Shape& shape;
  const ConvProblem p;
  std::vector<T> src, wei, bias;

  explicit Example(const Shape& s) : shape(s), p(problem_of(s)) {
    std::mt19937 random(static_cast<unsigned>(std::hash<std::string>()(s.describe())));
    std::uniform_real_distribution<float> uniform(-1, 1);
    const auto fill = [&](std::vector<T>& v, int64_t n) {
      v.resize(n);
      for (T& x : v) round_to(&x, uniform(random));
    };
    fill(src, p.mb * p.src_n), fill(wei, p.ic * p.wei_0), fill(bias, p.oc);
  }

  // Of channel oc of an image at the position `at`.
  Wanted wanted(int64_t image, int64_t oc, const int64_t* at) const {
    const int64_t group_ic = p.ic / p.g, group_oc = p.oc / p.g, group = oc / group_oc;
    int64_t from = image * p.src_n, tap = oc % group_oc * p.wei_1;
    for (int a = 0; a < p.ndims; ++a) {
      from += at[a] / p.ker[a] * p.src_x[a];
      tap += at[a] % p.ker[a] * p.wei_x[a];
    }
    double sum = shape.bias ? widen(bias[oc]) : 0, magnitude = std::fabs(sum);
    for (int64_t c = group * group_ic; c < (group + 1) * group_ic; ++c) {
      const double product = static_cast<double>(widen(src[from + c * p.src_c])) * widen(wei[c * p.wei_0 + tap]);
      sum += product;
      magnitude += std::fabs(product);
    }
    const double terms = static_cast<double>(group_ic) + 2;
    const double error = 2 * std::numeric_limits<Sum<T>>::epsilon() * terms * magnitude + 1e-30;
    const double rounds = shape.activated ? 2 : 1;
    const double bound = error + rounds * (half_step(T()) * (std::fabs(sum) + error) + 0x1p-25 * (sizeof(T) == 2));
    return {shape.activated ? activated(sum) : sum, bound};
  }
};

// The first element of dst that is not as it should be, or -1; what lies between the channels stays NaN.
template <class T>
int64_t first_wrong(const Example<T>& example, const T* dst) {
  const ConvProblem& p = example.p;
  for (int64_t i = 0; i < p.mb * p.dst_n; ++i) {
    const int64_t image = i / p.dst_n, oc = i % p.dst_n / p.dst_c, points = p.dst_c - example.shape.gap;
    const double got = widen(dst[i]);
    int64_t rest = i % p.dst_n % p.dst_c, at[kMaxSpatial];
    if (oc == p.oc || rest >= points) {
      if (got == got) return i;
      continue;
    }
    for (int a = p.ndims - 1; a >= 0; --a) {
      at[a] = rest % p.dst_size[a];
      rest /= p.dst_size[a];
    }
    const Wanted want = example.wanted(image, oc, at);
    if (!(std::fabs(got - want.value) <= want.bound)) return i;
  }
  return -1;
}

template <class T>
void check(const Shape& shape, DataType dtype, const ArchFlags& arch) {
  const Example<T> example(shape);
  const ConvProblem& p = example.p;
  if (!depth_to_space::takes(p, dtype, arch) || !depth_to_space::suits(p)) {
    ++failures;
    std::printf("FAIL%s: not taken\n", shape.describe().c_str());
    return;
  }
  const depth_to_space::PlanPtr plan =
      depth_to_space::make_plan(p, dtype, shape.constant ? example.wei.data() : nullptr, arch);
  const size_t size = static_cast<size_t>(p.mb * p.dst_n);
  std::vector<T> one_thread;
  for (const int threads : {1, 3}) {
    constexpr size_t kSlack = 128;
    std::vector<T> memory(size + kSlack);
    std::memset(static_cast<void*>(memory.data()), 0xff, memory.size() * sizeof(T));
    T* dst = memory.data();
    while (reinterpret_cast<uintptr_t>(dst) % 64 != 0) ++dst;
    dst += shape.gap;
    std::vector<char> scratch(depth_to_space::scratch_bytes(*plan, p, threads) + 64, '\xff');
    char* aligned = scratch.data() + (64 - reinterpret_cast<uintptr_t>(scratch.data()) % 64) % 64;
    depth_to_space::run(*plan, p, example.src.data(), example.wei.data(), shape.bias ? example.bias.data() : nullptr,
                        dst, aligned, {nullptr, threads == 1 ? serial : threaded, threads});
    ++checked;
    const std::vector<T> got(dst, dst + size);
    int64_t wrong = threads == 1 ? first_wrong(example, dst) : -1;
    if (threads == 1) {
      one_thread = got;
    } else if (std::memcmp(one_thread.data(), got.data(), size * sizeof(T)) != 0) {
      wrong = -2;
    }
    for (const T* x = memory.data(); x != memory.data() + memory.size(); ++x) {
      if ((x < dst || x >= dst + size) && widen(*x) == widen(*x)) wrong = -3;
    }
    if (wrong == -1) continue;
    ++failures;
    std::printf("FAIL%s [type %d, %d threads]: %s %ld\n", shape.describe().c_str(), static_cast<int>(dtype), threads,
                wrong == -2   ? "differs from one thread"
                : wrong == -3 ? "wrote outside dst"
                              : "wrong element",
                static_cast<long>(wrong));
    return;
  }
}

std::vector<Shape> shapes() {
  std::vector<Shape> list = {
      {{16, 16}, {2, 2}, 1, 1, 20, 64},   // whole vectors in every row
      {{128, 160}, {2, 2}, 1, 1, 9, 16},  // past the caches
      {{128, 160}, {2, 2}, 1, 1, 9, 16, true, true, true},
      {{40, 64}, {4, 4}, 1, 1, 5, 33},   // likewise
      {{14, 14}, {2, 2}, 3, 1, 70, 24},  // rows that are no whole vectors, images one after the other
      {{5, 8, 8}, {2, 2, 2}, 2, 1, 33, 9},
      {{7, 1, 3}, {1, 3, 2}, 3, 2, 6, 22},
      {{4, 1}, {2, 2}, 5, 1, 300, 8},  // the shortest rows; sums in pieces
      {{200}, {8}, 2, 3, 21, 30},
      {{1000}, {3}, 1, 1, 700, 10},  // several blocks
      {{37, 41}, {2, 2}, 2, 1, 130, 17, false, false},
      {{16, 16}, {2, 4}, 2, 2, 16, 40, true, true, true, 3},  // dst with gaps
      {{90, 64}, {2, 2}, 2, 1, 16, 24, false, true, false, 16},
  };
  std::mt19937 random(3);
  const auto pick = [&](std::initializer_list<int64_t> values) { return *(values.begin() + random() % values.size()); };
  while (list.size() < 250) {
    Shape s{};
    s.g = pick({1, 1, 2, 3});
    s.mb = pick({1, 2, 5});
    s.ic = s.g * pick({2, 3, 8, 17, 64, 129});
    s.oc = s.g * pick({8, 9, 14, 15, 33});
    s.bias = random() % 2, s.constant = random() % 3 != 0, s.activated = random() % 3 == 0;
    s.gap = pick({0, 0, 1, 16});
    const int ndims = static_cast<int>(pick({1, 2, 2, 2, 3, 4}));
    int64_t positions = s.mb;
    for (int a = 0; a < ndims; ++a) {
      s.src.push_back(pick({1, 2, 3, 5, 7, 8, 11, 16, 31}));
      s.ker.push_back(a + 1 < ndims ? pick({1, 2, 2, 3, 4}) : pick({2, 2, 3, 4, 8}));
      positions *= s.src.back();
    }
    const int64_t taps = std::accumulate(s.ker.begin(), s.ker.end(), int64_t{1}, std::multiplies<>());
    if (positions >= 16 && positions * s.ic * s.oc / s.g * taps < 4'000'000) list.push_back(s);
  }
  return list;
}

// What is to be left to others.
void check_choice(const ArchFlags& arch) {
  const Shape good{{16, 16}, {2, 2}, 1, 1, 20, 64};
  const auto expect = [](bool ok, const char* what) {
    if (ok) return;
    ++failures;
    std::printf("FAIL: %s\n", what);
  };
  ConvProblem p = problem_of(good);
  p.pad[0] = 1, p.dst_size[0] -= 1;
  expect(!depth_to_space::suits(p), "suits with padding");
  p = problem_of(good);
  p.dst_size[1] += 1;
  expect(!depth_to_space::suits(p), "suits with an output padding");
  p = problem_of(good);
  p.src_x[1] = 20;
  expect(!depth_to_space::suits(p), "suits with channels last");
  p.ker[0] = 3;
  expect(!depth_to_space::takes(p, DataType::kFloat, arch), "takes a kernel beyond the stride");
  p = problem_of(good);
  p.dilation[0] = 2;
  expect(!depth_to_space::takes(p, DataType::kFloat, arch), "takes a dilation");
  expect(!depth_to_space::takes(problem_of(good), DataType::kFloat, ArchFlags{}), "takes what there is no kernel for");
}

// Numbers that dot products of pairs do not stand for give what floats give.
void keeps_what_pairs_cannot_hold(const ArchFlags& dots, const ArchFlags& floats) {
  const Shape shape{{9, 11}, {2, 2}, 2, 1, 35, 12};
  const Example<Bfloat16> example(shape);
  const ConvProblem& p = example.p;
  const auto result = [&](const ArchFlags& arch, const std::vector<Bfloat16>& src, const std::vector<Bfloat16>& wei) {
    const depth_to_space::PlanPtr plan = depth_to_space::make_plan(p, DataType::kBfloat16, wei.data(), arch);
    std::vector<char> scratch(depth_to_space::scratch_bytes(*plan, p, 1) + 64, '\xff');
    char* aligned = scratch.data() + (64 - reinterpret_cast<uintptr_t>(scratch.data()) % 64) % 64;
    std::vector<Bfloat16> dst(static_cast<size_t>(p.mb * p.dst_n));
    depth_to_space::run(*plan, p, src.data(), wei.data(), nullptr, dst.data(), aligned, {nullptr, serial, 1});
    std::vector<uint16_t> bits;
    for (const Bfloat16 x : dst) bits.push_back(x.bits);
    return bits;
  };
  const auto expect_same = [&](const std::vector<Bfloat16>& src, const std::vector<Bfloat16>& wei, const char* what,
                               double value) {
    ++checked;
    if (result(dots, src, wei) == result(floats, src, wei)) return;
    ++failures;
    std::printf("FAIL: not what floats give where %s %g\n", what, value);
  };
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const float special : {kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN(), 0x1p127f}) {
    for (const int64_t channel : {p.ic - 1, p.ic - 2}) {  // the first of a pair, the second of another
      std::vector<Bfloat16> src = example.src;
      src[p.src_n + channel * p.src_c + 5] = to_bfloat16(special);
      expect_same(src, example.wei, "a number of src is", special);
    }
  }
  const auto scaled = [](std::vector<Bfloat16> values, float scale) {
    for (Bfloat16& x : values) x = to_bfloat16(to_float(x) * scale);
    return values;
  };
  for (const float scale : {0x1p100f, 0x1p-60f, 0x1p-120f, 0x1p-132f}) {
    expect_same(scaled(example.src, scale), example.wei, "src is scaled by", scale);
    expect_same(example.src, scaled(example.wei, scale), "the weights are scaled by", scale);
  }
  for (const uint16_t bits : result(dots, std::vector<Bfloat16>(example.src.size()), example.wei)) {
    if (bits == 0) continue;
    ++failures;
    std::printf("FAIL: zeros give another value than zero\n");
    break;
  }
  if (depth_to_space::make_plan(p, DataType::kBfloat16, example.wei.data(), dots)->pairs == nullptr) {
    ++failures;
    std::printf("FAIL: no dot products\n");
  }
}

// Every shape that the kernel for these flags has phases for, in floats and another type.
void check_shapes(const ArchFlags& arch) {
  const depth_to_space::Kernel& kernel = *depth_to_space::get_kernel(arch);
  size_t count = 0;
  constexpr DataType kOthers[] = {DataType::kFloat16, DataType::kBfloat16, DataType::kDouble};
  for (const Shape& s : shapes()) {
    const DataType other = kOthers[count++ % std::size(kOthers)];
    if (kernel.groups(s.ker.back()) == 0) continue;
    check<float>(s, DataType::kFloat, arch);
    Shape typed = s;
    typed.activated = s.activated && other != DataType::kDouble;   // which has no activation
    if (other == DataType::kDouble && s.ic / s.g > 256) continue;  // which is left to others
    with_float_type(other, [&](auto zero) { check<decltype(zero)>(typed, other, arch); });
  }
}

}  // namespace

int main() {
  ArchFlags arch = ArchFlags::host();
  arch.amx_bf16 = arch.slow_bf16_dots = false;  // which would take other ways
  const ArchFlags dots = arch;
  arch.avx512_bf16 = false;
  if (arch.avx512) {
    check_choice(arch);
    check_shapes(arch);
  } else {
    std::printf("SKIP avx512: this CPU lacks AVX-512\n");
  }
  if (dots.avx512_bf16) {
    keeps_what_pairs_cannot_hold(dots, arch);
    for (const Shape& s : shapes()) check<Bfloat16>(s, DataType::kBfloat16, dots);
  } else {
    std::printf("SKIP avx512_bf16: this CPU lacks AVX512-BF16\n");
  }
  ArchFlags avx2;
  avx2.avx2_fma = arch.avx2_fma;
  if (avx2.avx2_fma) {
    check_choice(avx2);
    check_shapes(avx2);
  } else {
    std::printf("SKIP avx2: this CPU lacks AVX2\n");
  }
  std::printf("%d runs, %d failures\n", checked, failures);
  return failures == 0 ? 0 : 1;
}

// Every ISA path this CPU has against a naive sum in double.
//
// The bound per element: n products and sums round once each, in any order, so |error| <= n * eps * sum|src * wei|;
// twice that, and two more roundings for the bias and the total.
#include "kernels/conv/conv.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iterator>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/arch.h"
#include "kernels/conv/channel_lanes.h"
#include "kernels/conv/col2im.h"
#include "kernels/conv/depthwise.h"
#include "kernels/im2col/im2col_gemm.h"
#include "tests/kernels/conv_shapes.h"

using namespace ortconv;
using namespace ortconv::kernels;

namespace {

int failures = 0, checked = 0, in_parts = 0, in_pairs = 0;

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

constexpr Activation kActivation{0.25f, -0.5f, 3.0f};

double activated(double value) {
  return std::clamp<double>(value < 0 ? value * kActivation.slope : value, kActivation.minimum, kActivation.maximum);
}

ConvProblem problem_of(const Shape& s) {
  ConvProblem p;
  if (s.activated) p.activation = kActivation;
  p.ndims = static_cast<int>(s.src.size());
  p.mb = s.mb, p.g = s.g, p.ic = s.ic, p.oc = s.oc;
  int64_t src_points = 1, dst_points = 1, taps = 1;
  for (int a = p.ndims - 1; a >= 0; --a) {
    p.src_size[a] = s.src[a];
    p.ker[a] = s.ker[a], p.stride[a] = s.stride[a], p.dilation[a] = s.dilation[a], p.pad[a] = s.pad[a];
    const int64_t extent = (s.ker[a] - 1) * s.dilation[a] + 1;
    p.dst_size[a] = s.op == Op::kConv
                        ? (s.src[a] + s.pad[a] + s.pad_end[a] - extent) / s.stride[a] + 1
                        : std::max<int64_t>(s.stride[a] * (s.src[a] - 1) + extent, 0) - s.pad[a] - s.pad_end[a];
    p.src_x[a] = src_points * (s.nxc ? s.ic : 1);
    p.dst_x[a] = dst_points * (s.nxc ? s.oc : 1);
    p.wei_x[a] = taps;
    src_points *= p.src_size[a];
    dst_points *= p.dst_size[a];
    taps *= s.ker[a];
  }
  p.src_c = s.nxc ? 1 : src_points;
  p.dst_c = s.nxc ? 1 : dst_points;
  p.src_n = src_points * s.ic;
  p.dst_n = dst_points * s.oc;
  p.wei_1 = taps;
  p.wei_0 = taps * (s.op == Op::kConv ? s.ic : s.oc) / s.g;
  return p;
}

// Visits every index of a box.
void each(const std::vector<int64_t>& box, const std::function<void(const std::vector<int64_t>&)>& fn) {
  std::vector<int64_t> at(box.size(), 0);
  for (int64_t n : box) {
    if (n == 0) return;
  }
  while (true) {
    fn(at);
    int a = static_cast<int>(box.size()) - 1;
    while (a >= 0 && ++at[a] == box[a]) at[a--] = 0;
    if (a < 0) return;
  }
}

// A problem with random inputs and what must come out of it.
template <class T>
struct Example {
  const Shape& shape;
  const ConvProblem p;
  std::vector<T> src, wei, bias;
  std::vector<double> want, magnitude;  // without the bias

  explicit Example(const Shape& s);
};

template <class T>
Example<T>::Example(const Shape& s) : shape(s), p(problem_of(s)) {
  std::mt19937 random(static_cast<unsigned>(std::hash<std::string>()(s.describe())));
  std::uniform_real_distribution<float> uniform(-1, 1);
  const auto fill = [&](int64_t n) {
    std::vector<T> v(n);
    for (T& x : v) round_to(&x, uniform(random));
    return v;
  };
  int64_t taps = 1;
  for (int64_t k : s.ker) taps *= k;
  src = fill(p.mb * p.src_n), wei = fill(s.ic * s.oc / s.g * taps), bias = fill(s.oc);
  want.resize(p.mb * p.dst_n), magnitude.resize(want.size());

  std::vector<int64_t> box = {s.mb, s.g, s.ic / s.g, s.oc / s.g};
  box.insert(box.end(), s.ker.begin(), s.ker.end());
  // The moving tensor: src for a transposed convolution, dst for a convolution. Its last axis is a loop of its own.
  const int last = p.ndims - 1;
  const bool forward = s.op == Op::kConv;
  const int64_t* moving = forward ? p.dst_size : p.src_size;
  const std::vector<int64_t> outer(moving, moving + last);
  each(box, [&](const std::vector<int64_t>& i) {
    const int64_t n = i[0], ic = i[1] * (s.ic / s.g) + i[2], oc = i[1] * (s.oc / s.g) + i[3];
    int64_t w = forward ? oc * p.wei_0 + i[2] * p.wei_1 : ic * p.wei_0 + i[3] * p.wei_1;
    for (int a = 0; a < p.ndims; ++a) w += i[4 + a] * p.wei_x[a];
    const double weight = widen(wei[w]);
    each(outer, [&](const std::vector<int64_t>& x) {
      int64_t from = n * p.src_n + ic * p.src_c, to = n * p.dst_n + oc * p.dst_c;
      for (int a = 0; a < last; ++a) {
        const int64_t other = x[a] * s.stride[a] - s.pad[a] + i[4 + a] * s.dilation[a];
        const int64_t at_src = forward ? other : x[a], at_dst = forward ? x[a] : other;
        if (at_src < 0 || at_src >= p.src_size[a] || at_dst < 0 || at_dst >= p.dst_size[a]) return;
        from += at_src * p.src_x[a];
        to += at_dst * p.dst_x[a];
      }
      int64_t other = i[4 + last] * s.dilation[last] - s.pad[last];
      for (int64_t at = 0; at < moving[last]; ++at, other += s.stride[last]) {
        const int64_t at_src = forward ? other : at, at_dst = forward ? at : other;
        if (at_src < 0 || at_src >= p.src_size[last] || at_dst < 0 || at_dst >= p.dst_size[last]) continue;
        const double product = widen(src[from + at_src * p.src_x[last]]) * weight;
        want[to + at_dst * p.dst_x[last]] += product;
        magnitude[to + at_dst * p.dst_x[last]] += std::fabs(product);
      }
    });
  });
}

// Half of the distance between 1 and the next number, and between the least numbers.
struct Rounding {
  double relative, least;
};
Rounding rounding(float) { return {0x1p-24, 0}; }
Rounding rounding(double) { return {0x1p-53, 0}; }
Rounding rounding(Float16) { return {0x1p-11, 0x1p-25}; }
Rounding rounding(Bfloat16) { return {0x1p-8, 0}; }

// The ways to compute a run.
enum class Way { kPhases, kTaps, kLanes, kRows, kColumns, kPatchTiles, kColumnTiles };
constexpr const char* kWayNames[] = {"by phases",  "tap by tap", "in lanes",           "row by row",
                                     "in columns", "in patches", "in tiles of columns"};
int runs_of[std::size(kWayNames)];

struct Runner {
  Way way;
  const Plan* plan;  // of the first ways
  const ArchFlags& arch;
  const float* widened;  // weights of kColumns, or null

  size_t bytes(const Shape& s, const ConvProblem& p, DataType dtype, int threads) const {
    switch (way) {
      case Way::kLanes:
        return channel_lanes_scratch_bytes(*plan, p, threads);
      case Way::kRows:
        return depthwise_scratch_bytes(*plan, p, threads);
      case Way::kColumns:
        return columns_scratch_bytes(*plan, p, threads, widened != nullptr);
      case Way::kPatchTiles:
      case Way::kColumnTiles:
        return im2col::scratch_bytes(tiles(), s.op, p, dtype, arch, threads);
      default:
        return scratch_bytes(*plan, p, threads);
    }
  }
  void run(const Shape& s, const ConvProblem& p, DataType dtype, const void* src, const void* wei, const void* bias,
           void* dst, void* scratch, const Parallel& parallel) const {
    switch (way) {
      case Way::kLanes:
        return run_channel_lanes(*plan, p, src, wei, bias, dst, scratch, parallel);
      case Way::kRows:
        return run_depthwise(*plan, p, src, wei, bias, dst, scratch, parallel);
      case Way::kColumns:
        return run_columns(*plan, p, src, {wei, widened}, bias, dst, scratch, parallel);
      case Way::kPatchTiles:
      case Way::kColumnTiles:
        return im2col::run(tiles(), s.op, p, dtype, arch, src, wei, bias, dst, scratch, parallel);
      default:
        return kernels::run(*plan, p, src, wei, bias, dst, scratch, parallel);
    }
  }

 private:
  im2col::Way tiles() const { return way == Way::kPatchTiles ? im2col::Way::kPatches : im2col::Way::kColumns; }
};

template <class T>
void check(const Example<T>& example, DataType dtype, const ArchFlags& arch, const char* isa) {
  const Shape& s = example.shape;
  const ConvProblem& p = example.p;
  const std::vector<T>&src = example.src, &wei = example.wei, &bias = example.bias;
  const std::vector<double>&want = example.want, &magnitude = example.magnitude;
  int64_t taps = 1;
  for (int64_t k : s.ker) taps *= k;
  ConvProblem part = p;  // what a caller knows before the inputs
  part.mb = 0;
  part.src_n = part.src_c = part.dst_n = part.dst_c = 0;
  for (int a = 0; a < kMaxSpatial; ++a) {
    part.src_size[a] = part.dst_size[a] = part.pad[a] = part.src_x[a] = part.dst_x[a] = 0;
  }
  const auto is_empty = [](int64_t size) { return size == 0; };
  const bool empty = p.mb == 0 || std::any_of(p.src_size, p.src_size + p.ndims, is_empty) ||
                     std::any_of(p.dst_size, p.dst_size + p.ndims, is_empty);
  const PlanPtr phases = make_plan(s.op, part, dtype, s.constant ? wei.data() : nullptr, arch);
  const bool may_tap = s.op == Op::kConvTranspose && s.constant && !empty;
  const PlanPtr tapwise = may_tap ? make_plan(s.op, part, dtype, wei.data(), arch, Packing::kTaps) : nullptr;
  if (phases == nullptr || (may_tap && tapwise == nullptr)) {
    std::printf("FAIL %s [%s]: no plan\n", s.describe().c_str(), isa);
    ++failures;
    return;
  }
  std::vector<T> first;
  std::vector<std::pair<Way, const Plan*>> ways = {{Way::kPhases, phases.get()}};
  if (!empty) {
    if (may_tap) ways.push_back({Way::kTaps, tapwise.get()});
    const PlanPtr& in_floats = phases->in_floats == nullptr ? phases : phases->in_floats;
    if (can_run_channel_lanes(*phases, p)) ways.push_back({Way::kLanes, phases.get()});
    if (can_run_depthwise(*phases, p)) ways.push_back({Way::kRows, phases.get()});
    if (can_run_columns(*in_floats, p)) ways.push_back({Way::kColumns, in_floats.get()});
    if (im2col::can_run(im2col::Way::kPatches, s.op, p)) ways.push_back({Way::kPatchTiles, nullptr});
    if (im2col::can_run(im2col::Way::kColumns, s.op, p)) ways.push_back({Way::kColumnTiles, nullptr});
  }
  for (const auto& [way, plan] : ways) {
    ++runs_of[static_cast<int>(way)];
    in_parts += way == Way::kPhases && plan->parts != nullptr;
    in_pairs += way == Way::kTaps && plan->in_pairs();
  }
  Buffer widened;
  if (s.constant && sizeof(T) < sizeof(Sum<T>)) widened = widened_weights(*phases, wei.data());
  for (size_t i = 0; i < 2 * ways.size(); ++i) {
    const auto [way, plan] = ways[i / 2];
    const int threads = i % 2 == 0 ? 1 : 3;
    const Runner runner{way, plan, arch, widened.as<float>()};
    T guard, nan;
    std::memset(static_cast<void*>(&nan), 0xff, sizeof nan);
    round_to(&guard, -12345.0f);
    std::vector<T> dst(want.size() + 32, nan);
    std::fill_n(dst.begin(), 16, guard);
    std::fill_n(dst.end() - 16, 16, guard);
    const Parallel parallel{nullptr, threads == 1 ? serial : threaded, threads};
    const T* added = s.bias ? bias.data() : nullptr;
    Aligned scratch(runner.bytes(s, p, dtype, threads));
    runner.run(s, p, dtype, src.data(), wei.data(), added, dst.data() + 16, scratch.data, parallel);
    ++checked;
    int64_t bad = -1;
    for (int64_t i = 0; i < static_cast<int64_t>(want.size()) && bad < 0; ++i) {
      const double b = s.bias ? widen(bias[i % p.dst_n / p.dst_c % s.oc]) : 0.0;
      const double terms = static_cast<double>(s.ic / s.g * taps) + 2;
      const double exact = s.activated ? activated(want[i] + b) : want[i] + b;
      const double sums = 2 * std::numeric_limits<Sum<T>>::epsilon() * terms * (magnitude[i] + std::fabs(b)) + 1e-30;
      const Rounding last = rounding(T());
      const double rounds = s.activated ? 2 : 1;
      const double bound = sums + rounds * (last.relative * (std::fabs(want[i] + b) + sums) + last.least);
      if (!(std::fabs(widen(dst[16 + i]) - exact) <= bound)) bad = i;
    }
    for (int i = 0; i < 16; ++i) {
      if (widen(dst[i]) != widen(guard) || widen(dst[dst.size() - 1 - i]) != widen(guard)) bad = -2;
    }
    if (threads == 1) {  // comes first of each pair
      first = dst;
    } else if (bad == -1 && std::memcmp(first.data() + 16, dst.data() + 16, want.size() * sizeof(T)) != 0) {
      bad = -3;
    }
    if (bad != -1) {
      ++failures;
      std::printf("FAIL %s [%s, type %d, %d threads, %s]: ", s.describe().c_str(), isa, static_cast<int>(dtype),
                  threads, kWayNames[static_cast<int>(way)]);
      if (bad == -2) std::printf("wrote outside dst\n");
      if (bad == -3) std::printf("differs from one thread\n");
      if (bad >= 0)
        std::printf("dst[%ld] = %.9g, want %.9g\n", static_cast<long>(bad), static_cast<double>(widen(dst[16 + bad])),
                    want[bad]);
      return;
    }
  }
}

void refuses_what_it_cannot_do() {
  Shape s{Op::kConvTranspose, {2, 2}, {65, 65}, {1, 1}, {1, 1}, {0, 0}, {0, 0}};
  if (make_plan(s.op, problem_of(s), DataType::kFloat, nullptr, ArchFlags{}) != nullptr) {
    ++failures;
    std::printf("FAIL: took more taps than kMaxTaps\n");
  }
  Shape t{Op::kConvTranspose, {2}, {1}, {1}, {1}, {0}, {0}};
  const float inf = std::numeric_limits<float>::infinity();
  if (make_plan(t.op, problem_of(t), DataType::kFloat, &inf, ArchFlags{}) != nullptr) {
    ++failures;
    std::printf("FAIL: took an infinite weight\n");
  }
}

// A src that holds infinities, NaN, or nothing but the huge or the tiny gives what floats give, and so do weights of
// the latter. Plans for `floats` have neither parts nor pairs, those for `arch` are to have either.
template <class T>
void keeps_what_parts_cannot_hold(DataType dtype, Packing packing, const ArchFlags& arch, const ArchFlags& floats) {
  const Shape s{Op::kConvTranspose, {9, 11}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}, 2, 1, 91, 32};
  const Example<T> example(s);
  const ConvProblem& p = example.p;
  const auto expect = [&](bool ok, const char* what, double value) {
    ++checked;
    if (ok) return;
    ++failures;
    std::printf("FAIL: %s %g [type %d, packing %d]\n", what, value, static_cast<int>(dtype), static_cast<int>(packing));
  };
  using Values = std::vector<T>;
  const auto result = [&](const Plan& plan, const Values& src, const Values& wei) {
    Values dst(example.want.size());
    Aligned scratch(scratch_bytes(plan, p, 1));
    kernels::run(plan, p, src.data(), wei.data(), nullptr, dst.data(), scratch.data, {nullptr, serial, 1});
    return dst;
  };
  const auto expect_same = [&](const Values& src, const Values& wei, Packing reference, const char* what,
                               double value) {
    const PlanPtr plan = make_plan(s.op, p, dtype, wei.data(), arch, packing);
    const PlanPtr in_floats = make_plan(s.op, p, dtype, wei.data(), floats, reference);
    const Values got = result(*plan, src, wei), want = result(*in_floats, src, wei);
    expect(std::memcmp(got.data(), want.data(), got.size() * sizeof(T)) == 0, what, value);
  };
  const auto scaled = [](Values values, float scale) {
    for (T& x : values) round_to(&x, widen(x) * scale);
    return values;
  };
  const PlanPtr plan = make_plan(s.op, p, dtype, example.wei.data(), arch, packing);
  expect(plan->parts != nullptr || plan->in_pairs(), "neither parts nor pairs:", 0);
  constexpr float kInf = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();
  for (const float special : {kInf, -kInf, kNan, 0x1p127f}) {
    for (const int64_t channel : {p.ic - 1, p.ic - 2}) {  // the first of a pair, the second of another
      Values src = example.src;
      round_to(&src[p.src_n + channel * p.src_c + 5], special);
      expect_same(src, example.wei, Packing::kPhases, "not what floats give where src holds", special);
    }
  }
  for (const float scale : {0x1p100f, 0x1p-60f, 0x1p-120f, 0x1p-132f}) {
    expect_same(scaled(example.src, scale), example.wei, Packing::kPhases, "not what floats give where src is", scale);
    expect_same(example.src, scaled(example.wei, scale), packing, "not what floats give where weights are", scale);
  }
  for (const T y : result(*plan, Values(example.src.size()), example.wei)) {
    if (widen(y) != 0) expect(false, "zeros give", widen(y));
  }
}

}  // namespace

// So many random shapes; "in_turns": one type for each shape, and not two, and a quarter of them by portable code.
int main(int argc, char** argv) {
  const int random_count = argc > 1 ? std::atoi(argv[1]) : 400;
  const bool in_turns = argc > 2 && std::string(argv[2]) == "in_turns";
  const ArchFlags& host = ArchFlags::host();
  refuses_what_it_cannot_do();
  constexpr DataType kTypes[] = {DataType::kFloat, DataType::kFloat16, DataType::kBfloat16, DataType::kDouble};
  size_t count = 0;
  for (const Shape& s : shapes(random_count)) {
    const ConvProblem p = problem_of(s);
    if (std::any_of(p.dst_size, p.dst_size + p.ndims, [](int64_t size) { return size < 0; })) continue;
    // One of all types, or float and one of the others.
    std::vector<DataType> types{kTypes[count % std::size(kTypes)]};
    if (!in_turns) types = {DataType::kFloat, kTypes[1 + count % (std::size(kTypes) - 1)]};
    ++count;
    for (const DataType dtype : types) {
      Shape typed = s;
      typed.activated = s.activated && dtype != DataType::kDouble;  // which has no activation
      with_float_type(dtype, [&](auto zero) {
        const Example<decltype(zero)> example(typed);
        if (!in_turns || count / std::size(kTypes) % 4 == 0) check(example, dtype, ArchFlags{}, "portable");
        ArchFlags avx2;
        avx2.avx2_fma = true;
        if (host.avx2_fma) check(example, dtype, avx2, "avx2");
        ArchFlags avx512 = avx2;
        avx512.avx512 = true;
        if (host.avx512) check(example, dtype, avx512, "avx512");
        ArchFlags dots = avx512;
        dots.avx512_bf16 = true;
        if (host.avx512_bf16 && dtype == DataType::kBfloat16) check(example, dtype, dots, "avx512_bf16");
        if (host.amx_bf16) check(example, dtype, host, "amx");
      });
    }
  }
  ArchFlags floats = host, dots = host;
  floats.amx_bf16 = floats.avx512_bf16 = dots.amx_bf16 = dots.slow_bf16_dots = false;
  if (host.avx512_bf16) {
    for (const Packing packing : {Packing::kPhases, Packing::kTaps}) {
      keeps_what_parts_cannot_hold<Bfloat16>(DataType::kBfloat16, packing, dots, floats);
    }
    if (in_pairs == 0) {
      ++failures;
      std::printf("FAIL: no shape was computed in pairs\n");
    }
  }
  if (host.amx_bf16) {
    keeps_what_parts_cannot_hold<float>(DataType::kFloat, Packing::kPhases, host, floats);
    if (in_parts == 0) {
      ++failures;
      std::printf("FAIL: no shape was computed in parts\n");
    }
  }
  for (size_t i = 0; i < std::size(kWayNames); ++i) {
    if (runs_of[i] > 0) continue;
    ++failures;
    std::printf("FAIL: no shape was computed %s\n", kWayNames[i]);
  }
  if (!host.avx2_fma) std::printf("SKIP avx2: this CPU lacks AVX2 or FMA\n");
  if (!host.avx512) std::printf("SKIP avx512: this CPU lacks AVX-512\n");
  if (!host.avx512_bf16) std::printf("SKIP avx512_bf16: this CPU lacks AVX512-BF16\n");
  if (!host.amx_bf16) std::printf("SKIP amx: this CPU lacks AMX or the system does not allow it\n");
  std::printf("%d runs, %d in parts, %d in pairs, %d failures\n", checked, in_parts, in_pairs, failures);
  return failures == 0 ? 0 : 1;
}

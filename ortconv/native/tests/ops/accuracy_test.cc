// The error of float sums on normal data, on every ISA path this CPU has, against that of an ordinary way to sum:
// tap after tap, each in blocks of 128 channels, or of a single position in eight sums side by side (see
// kernels/gemm/pieces.h).
#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <random>

#include "base/parallel.h"
#include "kernels/winograd/plan.h"
#include "ops/convolution.h"
#include "testing/cases.h"
#include "testing/test.h"

namespace ortconv {
namespace {

using test::Case;

// What is allowed: of the root mean square, which the model of pieces.h predicts, and of the mean of the largest
// hundredth. The very largest error scatters.
constexpr double kMostRms = 1.05, kMostLargest = 1.15, kMostRmsOfOthers = 1.1;

struct Layer {
  const char* name;
  kernels::Op op;
  int64_t mb, ic, oc, group;
  std::vector<int64_t> src;
  int64_t ker, stride, pad;
};

constexpr kernels::Op kTransposed = kernels::Op::kConvTranspose;

const Layer kLayers[] = {
    {"FCN k4s2", kTransposed, 1, 21, 8, 1, {13, 13}, 4, 2, 1},
    {"FSRCNN k9s3", kTransposed, 1, 56, 1, 1, {16, 16}, 9, 3, 4},
    {"U-Net k2s2", kTransposed, 1, 256, 16, 1, {12, 12}, 2, 2, 0},
    {"DBNet k2s2", kTransposed, 1, 64, 16, 1, {12, 12}, 2, 2, 0},
    {"WaveGAN k25s4", kTransposed, 1, 256, 16, 1, {40}, 25, 4, 11},
    {"Demucs k8s4", kTransposed, 1, 384, 16, 1, {100}, 8, 4, 2},
    {"3-D U-Net k3s2", kTransposed, 1, 64, 8, 1, {6, 6, 6}, 3, 2, 1},
    {"backward data k3s1", kTransposed, 1, 128, 16, 1, {14, 14}, 3, 1, 1},
    {"LapSRN k4s2", kTransposed, 1, 64, 16, 1, {16, 16}, 4, 2, 1},
    {"StyleGAN2 k3s2", kTransposed, 1, 512, 8, 1, {9, 9}, 3, 2, 0},
    {"FlowNet k4s2", kTransposed, 1, 1024, 8, 1, {6, 8}, 4, 2, 1},
    {"grouped k4s2", kTransposed, 1, 64, 32, 2, {12, 12}, 4, 2, 1},
    {"depthwise k16s8", kTransposed, 1, 16, 16, 16, {9, 9}, 16, 8, 4},
    {"two channels k4s2", kTransposed, 1, 2, 2, 1, {40, 40}, 4, 2, 1},
    {"DCGAN latent k4s1", kTransposed, 4, 100, 64, 1, {1, 1}, 4, 1, 0},
    {"single position k78", kTransposed, 20, 84, 5, 1, {1}, 78, 1, 0},
    {"image head k4s2", kTransposed, 2, 64, 3, 1, {16, 16}, 4, 2, 1},
    {"many channels backward data k3s1", kTransposed, 1, 1844, 12, 1, {14, 14}, 3, 1, 1},
    {"many channels k8", kTransposed, 1, 4098, 8, 1, {120}, 8, 1, 0},
    {"convolution k3", kernels::Op::kConv, 1, 128, 16, 1, {14, 14}, 3, 1, 1},
    {"inverse STFT k1024s256", kTransposed, 1, 2050, 1, 1, {6}, 1024, 256, 0},
    {"many channels k3", kernels::Op::kConv, 1, 20000, 4, 1, {100}, 3, 1, 1},
    {"long filter k5000", kernels::Op::kConv, 1, 1, 2, 1, {6000}, 5000, 1, 0},
    {"long filter k5000s3", kTransposed, 1, 40, 2, 1, {200}, 5000, 3, 0},
    {"filter larger than src k17s2", kTransposed, 1, 3, 24, 1, {2, 51}, 17, 2, 0},
    {"filter larger than src k12", kTransposed, 1, 20, 24, 1, {2, 109}, 12, 1, 0},
    {"filter larger than src k152", kTransposed, 3, 17, 24, 1, {19}, 152, 1, 62},
    {"filter larger than src k6", kTransposed, 2, 4, 7, 1, {2, 10, 4}, 6, 1, 2},
};

ConvProblem problem_of(const Layer& layer) {
  const int ndims = static_cast<int>(layer.src.size());
  Case c;
  c.attributes = test::attributes(layer.op == kTransposed ? ConvOp::kConvTranspose : ConvOp::kConv, ndims);
  c.attributes.group = layer.group;
  c.attributes.strides.assign(ndims, layer.stride);
  c.attributes.pads.assign(2 * ndims, layer.pad);
  c.bias = false;
  c.x = {layer.mb, layer.ic};
  c.w = layer.op == kTransposed ? Shape{layer.ic, layer.oc / layer.group} : Shape{layer.oc, layer.ic / layer.group};
  for (const int64_t size : layer.src) {
    c.x.push_back(size);
    c.w.push_back(layer.ker);
  }
  return c.problem(DataType::kFloat);
}

// c + a * b, rounded once or twice.
float add_product(float a, float b, float c, bool fused) {
  // The product is exact in double, and rounding the sum to double first matters once in 2^29 times.
  if (fused) return static_cast<float>(static_cast<double>(a) * b + c);
  const float product = a * b;
  return product + c;
}

// Inputs, the exact result, and that of the ordinary way, without and with fused multiplication and addition.
struct Example {
  ConvProblem p;
  std::vector<float> src, wei, ordinary[2];
  std::vector<double> exact;

  explicit Example(const Layer& layer) : p(problem_of(layer)) {
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    int64_t taps = 1, count = p.mb * p.oc;
    for (int a = 0; a < p.ndims; ++a) taps *= p.ker[a], count *= p.dst_size[a];
    src.resize(p.mb * p.src_n);
    wei.resize(p.ic * p.oc / p.g * taps);
    for (auto* values : {&src, &wei}) std::generate(values->begin(), values->end(), [&] { return normal(random); });
    exact.resize(count);
    for (auto& result : ordinary) result.resize(count);
    std::vector<int64_t> y(p.ndims);
    test::TapFinder finder(p, layer.op);
    do {
      const std::vector<test::Tap>& met = finder.taps_of(y);
      for (int64_t n = 0; n < p.mb; ++n) {
        for (int64_t oc = 0; oc < p.oc; ++oc)
          add_up(layer.op, met, n, oc, n * p.dst_n + oc * p.dst_c + test::offset(y, p.dst_x));
      }
    } while (test::next(&y, p.dst_size));
  }

 private:
  // The channels of one tap.
  struct Channels {
    const float *in, *with;
    int64_t count, in_stride, with_stride;
    bool fused;

    float add(int64_t c, float sum) const { return add_product(in[c * in_stride], with[c * with_stride], sum, fused); }
    float sum_of_block(int64_t begin) const {
      float sum = 0;
      for (int64_t c = begin; c < std::min(begin + kBlock, count); ++c) sum = add(c, sum);
      return sum;
    }
    float sum_side_by_side() const {
      float sums[8] = {};
      for (int64_t c = 0; c < count; ++c) sums[c % 8] = add(c, sums[c % 8]);
      return (sums[0] + sums[1] + sums[2] + sums[3]) + (sums[4] + sums[5] + sums[6] + sums[7]);
    }
  };
  static constexpr int64_t kBlock = 128;

  void add_up(kernels::Op op, const std::vector<test::Tap>& taps, int64_t n, int64_t oc, int64_t at) {
    const int64_t icg = p.ic / p.g, ocg = p.oc / p.g, group = oc / ocg;
    const int64_t ic_stride = op == kTransposed ? p.wei_0 : p.wei_1;
    const int64_t first_wei = op == kTransposed ? group * icg * p.wei_0 + oc % ocg * p.wei_1 : oc * p.wei_0;
    for (const test::Tap& tap : taps) {
      const float* in = src.data() + n * p.src_n + group * icg * p.src_c + tap.src;
      const float* with = wei.data() + first_wei + tap.wei;
      for (int64_t c = 0; c < icg; ++c) exact[at] += static_cast<double>(in[c * p.src_c]) * with[c * ic_stride];
      for (const bool fused : {false, true}) {
        const Channels channels{in, with, icg, p.src_c, ic_stride, fused};
        float& sum = ordinary[fused][at];
        if (op != kTransposed) {
          for (int64_t c = 0; c < icg; c += kBlock) sum += channels.sum_of_block(c);
        } else if (product_of(p.src_size, p.ndims) == 1) {
          sum += channels.sum_side_by_side();
        } else {
          float of_tap = 0;
          for (int64_t c = 0; c < icg; c += kBlock) of_tap += channels.sum_of_block(c);
          sum += of_tap;
        }
      }
    }
  }
};

struct Errors {
  double rms = 0, largest = 0;

  Errors(const std::vector<float>& got, const std::vector<double>& exact) {
    std::vector<double> errors(exact.size());
    for (size_t i = 0; i < exact.size(); ++i) {
      errors[i] = std::isnan(got[i]) ? INFINITY : std::fabs(got[i] - exact[i]);
      rms += errors[i] * errors[i];
    }
    rms = std::sqrt(rms / static_cast<double>(exact.size()));
    const size_t count = ceil_div(errors.size(), 100);
    std::nth_element(errors.begin(), errors.begin() + (count - 1), errors.end(), std::greater<>());
    largest = std::accumulate(errors.begin(), errors.begin() + count, 0.0) / static_cast<double>(count);
  }
};

const std::vector<Example>& examples() {
  static const std::vector<Example> all(std::begin(kLayers), std::end(kLayers));
  return all;
}

// Calls fn(flags, name) for every ISA path of this CPU.
template <class Fn>
void on_every_isa(Fn fn) {
  const ArchFlags& host = ArchFlags::host();
  ArchFlags avx2, avx512;
  avx2.avx2_fma = avx512.avx2_fma = avx512.avx512 = true;
  fn(ArchFlags(), "portable");
  if (host.avx2_fma) fn(avx2, "avx2");
  if (host.avx512) fn(avx512, "avx512");
  if (host.avx512_bf16 || host.neon) fn(host, "host");
}

bool fuses(const ArchFlags& arch) { return arch.avx2_fma || arch.neon; }

void expect_exact_enough(const Example& example, const std::vector<float>& got, const ArchFlags& arch,
                         const std::string& what, bool is_best = true) {
  const Errors ours(got, example.exact), ordinary(example.ordinary[fuses(arch)], example.exact);
  EXPECT(ours.rms <= (is_best ? kMostRms : kMostRmsOfOthers) * ordinary.rms, what, ": ", ours.rms, ", ordinary ",
         ordinary.rms);
  if (!is_best) return;
  EXPECT(ours.largest <= kMostLargest * ordinary.largest, what, ": ", ours.largest, ", ordinary ", ordinary.largest);
}

// 64-byte aligned scratch.
template <class Fn>
std::vector<float> run_with(size_t scratch_bytes, const Example& example, Fn fn) {
  std::vector<char> scratch(scratch_bytes + 64);
  std::vector<float> dst(example.exact.size());
  fn(dst.data(), scratch.data() + (64 - reinterpret_cast<uintptr_t>(scratch.data()) % 64) % 64);
  return dst;
}

// The result of an implementation, or of the best if `name` is empty, and which it was; none if it cannot compute the
// layer.
std::vector<float> run_by(const char* name, const Layer& layer, const Example& e, const ArchFlags& arch,
                          std::string* done) {
  ConvOptions options;
  options.implementation = name;
  const Convolution convolution(DataType::kFloat, layer.op, e.p, e.wei.data(), Weights::kConstant, arch, options);
  const auto choice = convolution.choose(e.p, e.wei.data());
  *done = choice->finite->entry->name;
  if (*name != '\0' && *done != name) return {};
  return run_with(convolution.scratch_bytes(*choice, 1), e, [&](float* dst, void* scratch) {
    convolution.run(*choice, e.src.data(), e.wei.data(), nullptr, nullptr, dst, scratch, serial());
  });
}

TEST(no_error_beyond_that_of_an_ordinary_sum) {
  on_every_isa([](ArchFlags arch, const char* isa) {
    for (const Winograd mode : {Winograd::kNever, Winograd::kWhereFaster}) {
      arch.winograd = mode;
      for (size_t i = 0; i < examples().size(); ++i) {
        std::string done;
        const std::vector<float> got = run_by("", kLayers[i], examples()[i], arch, &done);
        expect_exact_enough(examples()[i], got, arch, test::describe(kLayers[i].name, ", ", isa, ", ", done));
      }
    }
  });
}

// Of the implementations that are not chosen the root mean square alone. Of a single position im2col multiplies zeros
// for all taps but one, so that its pieces hold hardly any product: its sums are chains, and left out.
TEST(no_implementation_has_a_larger_error) {
  on_every_isa([](const ArchFlags& arch, const char* isa) {
    for (size_t i = 0; i < examples().size(); ++i) {
      for (const implementations::Entry& entry : implementations::list()) {
        std::string done;
        const std::vector<float> got = run_by(entry.name, kLayers[i], examples()[i], arch, &done);
        const bool is_single = product_of(examples()[i].p.src_size, examples()[i].p.ndims) == 1;
        if (done != entry.name || (is_single && done == "im2col")) continue;
        expect_exact_enough(examples()[i], got, arch, test::describe(kLayers[i].name, ", ", isa, ", ", done), false);
      }
    }
  });
}

// The largest errors come from the last additions, of the sums of calls: there are few of these.
TEST(phases_sum_many_channels_in_long_calls) {
  int compared = 0;
  on_every_isa([&](const ArchFlags& arch, const char* isa) {
    if (arch.amx_bf16) return;  // products in parts, whose calls are of another kind
    for (size_t i = 0; i < examples().size(); ++i) {
      if (examples()[i].p.ic < 2000) continue;
      std::string done;
      const std::vector<float> got = run_by("phases", kLayers[i], examples()[i], arch, &done);
      if (done != "phases") continue;
      ++compared;
      expect_exact_enough(examples()[i], got, arch, test::describe(kLayers[i].name, ", ", isa));
    }
  });
  EXPECT(compared > 0, "no layer of many channels");
}

// Whatever would choose it: minimal filtering that counts as exact enough is.
TEST(minimal_filtering_knows_its_error) {
  namespace winograd = kernels::winograd;
  int taken = 0, refused = 0;
  on_every_isa([&](const ArchFlags& arch, const char* isa) {
    for (size_t i = 0; i < examples().size(); ++i) {
      for (const auto windows : {winograd::Windows::kShared, winograd::Windows::kSeparate}) {
        const Example& e = examples()[i];
        winograd::Plan sizes{};
        if (!winograd::plan_sizes(kLayers[i].op, e.p, windows, DataType::kFloat, arch, &sizes)) continue;
        ++(sizes.exact_enough ? taken : refused);
        if (!sizes.exact_enough) continue;
        const winograd::PlanPtr plan =
            winograd::make_plan(kLayers[i].op, e.p, windows, DataType::kFloat, e.wei.data(), arch);
        const std::vector<float> got =
            run_with(winograd::scratch_bytes(*plan, e.p, 1), e, [&](float* dst, void* scratch) {
              EXPECT(winograd::run(*plan, e.p, e.src.data(), nullptr, dst, scratch, serial()), kLayers[i].name);
            });
        expect_exact_enough(e, got, arch, test::describe(kLayers[i].name, ", filtered, ", isa));
      }
    }
  });
  EXPECT(taken > 0 && refused > 0, taken, " taken, ", refused, " refused");
}

}  // namespace
}  // namespace ortconv

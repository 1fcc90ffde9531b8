// What computes which problem: decided by estimates, the same whatever the weights' values, and never nothing.
#include <algorithm>
#include <string>
#include <vector>

#include "ops/implementations/chooser.h"
#include "ops/tuning.h"
#include "testing/cases.h"
#include "testing/test.h"

namespace ortconv {
namespace {

using implementations::Chooser;
using implementations::Estimate;
using implementations::Node;

ArchFlags flags(bool avx512) {
  ArchFlags arch;
  arch.avx2_fma = true;
  arch.avx512 = avx512;
  arch.winograd = Winograd::kWhereFaster;
  return arch;
}

// A transposed convolution of images, and weights of ones.
struct Layer {
  ConvProblem p;
  std::vector<float> wei;

  Layer(int64_t ic, int64_t oc, int64_t g, int64_t size, int64_t ker, int64_t stride, int64_t pad) {
    p.ndims = 2, p.mb = 1, p.g = g, p.ic = ic, p.oc = oc;
    const int64_t dst = (size - 1) * stride + ker - 2 * pad;
    for (int a = 0; a < 2; ++a) {
      p.src_size[a] = size, p.dst_size[a] = dst, p.ker[a] = ker, p.stride[a] = stride, p.pad[a] = pad;
      p.dilation[a] = 1;
      p.src_x[a] = a == 0 ? size : 1, p.dst_x[a] = a == 0 ? dst : 1, p.wei_x[a] = a == 0 ? ker : 1;
    }
    p.src_c = size * size, p.src_n = ic * p.src_c, p.dst_c = dst * dst, p.dst_n = oc * p.dst_c;
    p.wei_1 = ker * ker, p.wei_0 = oc / g * p.wei_1;
    wei.assign(static_cast<size_t>(ic * p.wei_0), 1.0f);
  }

  std::string chosen(const ArchFlags& arch, const std::string& preferred = "", bool constant = true) const {
    const Chooser chooser(Node{DataType::kFloat, kernels::Op::kConvTranspose, p, constant ? wei.data() : nullptr, arch},
                          preferred);
    return chooser.choose(p, {false, false}).entry->name;
  }
};

TEST(usual_layers) {
  for (const bool avx512 : {false, true}) {
    const ArchFlags arch = flags(avx512);
    const std::string depthwise = Layer(64, 64, 64, 64, 4, 2, 1).chosen(arch);
    EXPECT(depthwise == "depthwise" || depthwise == "channel_lanes", depthwise);
    EXPECT(Layer(128, 128, 1, 56, 3, 1, 1).chosen(arch) == "winograd", "k3s1 128>128 56x56");
    EXPECT(Layer(2048, 5, 1, 40, 1, 1, 0).chosen(arch) == "gemm_col2im", "a head of 2048 channels");
    EXPECT(Layer(64, 64, 1, 64, 4, 2, 1).chosen(arch) == "winograd", "k4s2 64>64 64x64, filtered on one axis");
    const std::string strided = Layer(32, 32, 1, 64, 3, 2, 1).chosen(arch);
    EXPECT(strided == "phases" || strided == "gemm_col2im", "k3s2 32>32 64x64: ", strided);
  }
#if defined(__x86_64__) || defined(_M_X64)  // elsewhere kernels have other sizes, or there are none
  EXPECT(Layer(256, 128, 1, 32, 2, 2, 0).chosen(flags(true)) == "depth_to_space", "k2s2 256>128 32x32");
  EXPECT(Layer(256, 128, 1, 32, 2, 2, 0).chosen(flags(false)) == "depth_to_space", "likewise with AVX2");
  EXPECT(Layer(24, 1200, 1, 2, 6, 1, 0).chosen(flags(true)) == "columns", "k6 24>1200 2x2, sums are not transposed");
#endif
}

TEST(minimal_filtering_can_be_asked_for_and_turned_off) {
  const Layer shallow(2, 2, 1, 56, 3, 1, 1), deep(128, 128, 1, 56, 3, 1, 1);
  ArchFlags arch = flags(true);
  EXPECT(shallow.chosen(arch) != "winograd", "two channels");
  EXPECT(deep.chosen(arch, "", false) != "winograd", "weights of each run");
  arch.winograd = Winograd::kAlways;
  EXPECT(shallow.chosen(arch) == "winograd", "two channels, always");
  arch.winograd = Winograd::kNever;
  EXPECT(deep.chosen(arch) != "winograd", "never");
}

TEST(minimal_filtering_leaves_outputs_that_no_tap_reaches) {
  Layer layer(128, 128, 1, 28, 4, 2, 0);
  const ArchFlags arch = flags(false);
  EXPECT(layer.chosen(arch, "winograd") == "winograd", "every output is reached");
  layer.p.dst_size[1] += 1;
  layer.p.dst_x[0] += 1, layer.p.dst_c += layer.p.dst_size[0], layer.p.dst_n = 128 * layer.p.dst_c;
  EXPECT(layer.chosen(arch, "winograd") != "winograd", "a column of output padding is not");
}

TEST(a_name_is_preferred_where_it_can) {
  const Layer layer(16, 16, 1, 8, 3, 2, 1);
  for (const char* name : {"phases", "gemm_col2im", "columns", "col2im"}) {
    EXPECT(layer.chosen(flags(false), name) == name, name);
  }
  EXPECT(layer.chosen(flags(false), "depthwise") == layer.chosen(flags(false)), "no depthwise layer");
}

TEST(every_problem_has_an_implementation) {
  test::CaseMaker maker(5);
  int problems = 0;
  for (int i = 0; i < 2000; ++i) {
    const test::Case c = maker.make(static_cast<int>(maker.draw(1, 4)));
    ConvProblem p;
    try {
      p = c.problem(DataType::kFloat);
    } catch (const Error&) {
      continue;
    }
    const auto is_zero = [](int64_t size) { return size == 0; };
    if (p.mb * p.ic * p.oc == 0 || std::any_of(p.src_size, p.src_size + p.ndims, is_zero) ||
        std::any_of(p.dst_size, p.dst_size + p.ndims, is_zero)) {
      continue;
    }
    ++problems;
    const Chooser chooser(Node{DataType::kFloat, c.op(), p, nullptr, flags(i % 2 == 0)}, "");
    for (const bool any_weights : {false, true}) {
      for (const bool any_src : {false, true}) {
        const std::vector<Estimate> all = chooser.estimates(p, {any_weights, any_src});
        EXPECT(!all.empty(), c.describe());
        for (const Estimate& each : all) {
          EXPECT(each.nanoseconds > 0 && each.nanoseconds < 1e18, each.candidate->entry->name, ", ", c.describe());
        }
      }
    }
  }
  EXPECT(problems > 500, problems);
}

TEST(problems_have_names_of_their_own) {
  const Layer layer(16, 16, 1, 8, 3, 2, 1), other(16, 16, 1, 9, 3, 2, 1);
  const auto key = [](const Layer& l, int threads, bool constant) {
    return Tuning::key(kernels::Op::kConvTranspose, DataType::kFloat, l.p, constant, threads, flags(false));
  };
  EXPECT(key(layer, 1, true) == key(Layer(16, 16, 1, 8, 3, 2, 1), 1, true), "the same problem");
  EXPECT(key(layer, 1, true) != key(other, 1, true), "sizes");
  EXPECT(key(layer, 1, true) != key(layer, 2, true), "threads");
  EXPECT(key(layer, 1, true) != key(layer, 1, false), "weights");
  EXPECT(key(layer, 1, true).find(' ') == std::string::npos, "spaces");
}

}  // namespace
}  // namespace ortconv

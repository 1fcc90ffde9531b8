// Plans of convolutions of 8-bit integers, carried out by the emulator, against sums by the definition of
// ConvIntegerToFloat.
#include <cmath>
#include <cstdlib>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cuda/plan/gemm_plan.h"
#include "testing/cuda/integer_cases.h"
#include "testing/cuda/plans.h"
#include "testing/cuda/tensors.h"
#include "testing/cuda/tried.h"
#include "testing/gpu/run.h"

namespace ortconv::cuda {
namespace {

using test::draw_tensors;
using test::IntegerTensors;
using test::Zeros;

struct Setting {
  Device device;
  bool packed = false;
  emulator::Choices choices;
  int64_t tiling = -1;  // which of those that are possible, modulo their number; -1: what the plan takes
};

Tried& tried() {
  static Tried all;
  return all;
}

// Notes what is to run; true where something about it is new.
bool note(const std::vector<Launch>& launches, const IntegerTensors& t, const Setting& s, const std::string& about) {
  return tried().add(launches,
                     {t.x_zero.empty() ? "no zero point of X" : "zero point of X",
                      t.w_zero.empty()       ? "no zero point of W"
                      : t.w_zero.size() == 1 ? "zero point of W"
                                             : "zero points of channels",
                      t.w_scale.size() == 1 ? "scale" : "scales of channels", t.bias.empty() ? "no bias" : "bias",
                      s.choices.late_copies ? "late copies" : "early copies",
                      s.packed ? "packed before" : "packed by the run", about});
}

// What the plan makes of the tensors; none where they are left out.
std::optional<std::vector<float>> run(const IntegerTensors& t, const ConvProblem& p, size_t count, const Setting& s,
                                      const std::string& what, const std::string& about) {
  const Elements elements = t.elements();
  Plan plan = plan_run(elements, kernels::Op::kConv, p, s.device, {}, s.packed, !t.bias.empty());
  if (s.tiling >= 0 && !plan.launches.empty()) {
    plan_gemm(elements, kernels::Op::kConv, p, s.device, {}, s.packed, !t.bias.empty(), &plan,
              [&](const std::vector<Tiling>& tilings) {
                return std::cref(tilings[static_cast<size_t>(s.tiling) % tilings.size()]);
              });
  }
  const WeightPlan weights = s.packed ? plan_weights(elements, kernels::Op::kConv, p, s.device, {}) : WeightPlan();
  std::vector<Launch> launches = weights.launches;
  launches.insert(launches.end(), plan.launches.begin(), plan.launches.end());
  for (const Launch& launch : launches) expect_within_limits(launch, s.device, what);
  if (!tried().is_wanted(note(launches, t, s, about))) return std::nullopt;
  DeviceMemory packed(weights.packed_bytes), scratch(plan.scratch_bytes);
  const Tensor<uint8_t> x(t.x, 0), w(t.w, 0), x_zero(t.x_zero, 0), w_zero(t.w_zero, 0);
  const Tensor<float> x_scale(t.x_scale, 0), w_scale(t.w_scale, 0), bias(t.bias, 0);
  const Tensor<float> y(std::vector<float>(count, NAN), 0);
  emulator::Memory memory;
  x.put(Buffer::kX, ptx::Content::kDefined, &memory);
  w.put(Buffer::kW, ptx::Content::kDefined, &memory);
  x_scale.put(Buffer::kXScale, ptx::Content::kDefined, &memory);
  w_scale.put(Buffer::kScales, ptx::Content::kDefined, &memory);
  if (!t.x_zero.empty()) x_zero.put(Buffer::kXZero, ptx::Content::kDefined, &memory);
  if (!t.w_zero.empty()) w_zero.put(Buffer::kZeros, ptx::Content::kDefined, &memory);
  if (!t.bias.empty()) bias.put(Buffer::kB, ptx::Content::kDefined, &memory);
  y.put(Buffer::kY, ptx::Content::kResult, &memory);
  memory.set(Buffer::kPacked, packed.data(), weights.packed_bytes, ptx::Content::kUndefined);
  memory.set(Buffer::kScratch, scratch.data(), plan.scratch_bytes, ptx::Content::kUndefined);
  for (const Launch& launch : launches) emulator::run(launch, s.device.sm, memory, s.choices);
  return y.values();
}

// `about`: what is special about the problem, so that it is not left out.
void check(const IntegerTensors& t, const Case& c, const ConvProblem& p, const Setting& s,
           const std::string& about = "") {
  const std::string what =
      test::describe(c.describe(), t.x_signed ? " s8" : " u8", t.w_signed ? " s8" : " u8",
                     t.x_zero.empty() ? "" : " x zero", " w zeros ", t.w_zero.size(), " on sm ", s.device.sm,
                     " multiprocessors ", s.device.multiprocessors, s.packed ? " packed before" : "", " order ",
                     s.choices.order, s.choices.late_copies ? " late copies" : "", " tiling ", s.tiling);
  try {
    const auto y = run(t, p, static_cast<size_t>(test::count_of_dst(p)), s, what, about);
    if (!y) return;
    const test::Expected expected = test::expected_of(t, p);
    EXPECT(y->size() == expected.fused.size(), what, ": ", y->size(), " elements");
    for (size_t i = 0; i < y->size(); ++i) {
      if (expected.has(i, (*y)[i])) continue;
      EXPECT(false, what, ": element ", i, " of ", y->size(), " is ", (*y)[i], " not ", expected.fused[i]);
      break;
    }
  } catch (const Error& error) {
    EXPECT(false, what, ": ", error.what());
  }
}

Setting draw_setting(CaseMaker& maker) {
  Setting s;
  s.device = kDevices[maker.draw(0, 3)];
  s.device.multiprocessors = static_cast<int>(maker.draw(1, 4));
  s.packed = maker.draw(0, 1) == 0;
  s.choices.order = static_cast<unsigned>(maker.draw(0, 5));
  s.choices.late_copies = maker.draw(0, 1) == 0;
  return s;
}

// ORTCONV_CUDA_TEST_CASES asks for more, or for fewer, than 60.
int wanted_cases() {
  const char* const wanted = std::getenv("ORTCONV_CUDA_TEST_CASES");
  return wanted != nullptr ? std::atoi(wanted) : 60;
}

Case draw_case(CaseMaker& maker, int ndims, int64_t group, int64_t icg, int64_t ocg) {
  Case c;
  ConvAttributes& a = c.attributes = test::attributes(ConvOp::kConv, ndims);
  a.group = group;
  c.x = {maker.draw(1, 2), group * icg};
  c.w = {group * ocg, icg};
  for (int axis = 0; axis < ndims; ++axis) {
    c.x.push_back(ndims == 1 ? maker.draw(8, 150) : maker.draw(2, ndims == 2 ? 12 : 5));
    c.w.push_back(maker.draw(1, ndims == 3 ? 2 : 4));
    a.strides[axis] = maker.draw(1, 3);
    a.dilations[axis] = maker.draw(1, 2);
    a.pads[axis] = maker.draw(0, 3);
    a.pads[ndims + axis] = maker.draw(0, 3);
  }
  c.bias = maker.draw(0, 1) == 0;
  return c;
}

void check_drawn(CaseMaker& maker, const Case& c, bool suitable, const Setting& setting) {
  try {
    const ConvProblem p = c.problem(DataType::kInt8);
    const auto zeros = static_cast<Zeros>(maker.draw(0, 2));
    check(draw_tensors(maker, c, p, zeros, suitable), c, p, setting);
  } catch (const Error&) {
    // A kernel larger than its input.
  }
}

TEST(random_problems) {
  CaseMaker maker(31);
  for (int i = 0; i < wanted_cases() / 2; ++i) {
    const int64_t group = maker.draw(0, 2) == 0 ? maker.draw(2, 3) : 1;
    const Case c = draw_case(maker, static_cast<int>(maker.draw(1, 3)), group, maker.draw(1, 40), maker.draw(1, 40));
    check_drawn(maker, c, maker.draw(0, 3) != 0, draw_setting(maker));
  }
}

// Channels and positions for many tiles and steps, and for splits of the sum.
TEST(wide_problems) {
  CaseMaker maker(37);
  for (int i = 0; i < wanted_cases() / 4; ++i) {
    const int64_t icg = maker.draw(1, 5) * (maker.draw(0, 1) == 0 ? 64 : 50);
    const Case c = draw_case(maker, static_cast<int>(maker.draw(1, 2)), 1, icg, maker.draw(10, 150));
    Setting setting = draw_setting(maker);
    if (maker.draw(0, 3) != 0) setting.tiling = maker.draw(0, 1000);
    check_drawn(maker, c, maker.draw(0, 9) != 0, setting);
  }
}

TEST(depthwise_problems) {
  CaseMaker maker(41);
  for (int i = 0; i < wanted_cases() / 4; ++i) {
    const Case c =
        draw_case(maker, static_cast<int>(maker.draw(1, 3)), maker.draw(2, 70), maker.draw(1, 2), maker.draw(1, 2));
    check_drawn(maker, c, maker.draw(0, 1) == 0, draw_setting(maker));
  }
}

// Sums that do not fit in 32 bits.
TEST(sums_wrap) {
  Case c;
  c.attributes = test::attributes(ConvOp::kConv, 1);
  c.x = {1, 70000, 2};
  c.w = {3, 70000, 1};
  const ConvProblem p = c.problem(DataType::kInt8);
  for (const int sm : {75, 90}) {
    IntegerTensors t{
        false,   true,     std::vector<uint8_t>(140000, 0xff), std::vector<uint8_t>(210000, 0x80), {}, {}, {0.5f},
        {0.25f}, {1, 2, 3}};
    if (sm == 90) t.x_zero = {7};
    check(t, c, p, {{sm, 2, 64 << 10}, true, {1, false}, -1}, test::describe("sums that wrap, sm ", sm));
  }
}

// An output for each channel.
TEST(one_position) {
  CaseMaker maker(47);
  Case c = draw_case(maker, 2, 1, 130, 40);
  c.x = {3, 130, 3, 2};
  c.w = {40, 130, 3, 2};
  c.attributes.dilations = {1, 1};
  c.attributes.pads = {0, 0, 0, 0};
  for (const bool packed : {false, true}) {
    const ConvProblem p = c.problem(DataType::kInt8);
    check(draw_tensors(maker, c, p, Zeros::kChannels, true), c, p, {{80, 2, 64 << 10}, packed, {}, -1}, "one position");
  }
}

// Padding of which there is far more than of X.
TEST(wide_padding) {
  CaseMaker maker(43);
  Case c = draw_case(maker, 2, 1, 8, 8);
  c.x = {1, 8, 3, 3};
  c.w = {8, 8, 2, 2};
  c.attributes.strides = {500, 1};
  c.attributes.dilations = {1, 1};
  c.attributes.pads = {600, 90, 700, 2};
  const ConvProblem p = c.problem(DataType::kInt8);
  check(draw_tensors(maker, c, p, Zeros::kChannels, true), c, p, {{90, 2, 64 << 10}, true, {}, -1}, "wide padding");
  tried().expect("direct");  // no copy was made
}

// The tests above leave out no way of forming sums, unless they are cut short.
TEST(every_way_was_tried) {
  if (wanted_cases() < 60) return;
  for (const char* fact :
       {"gather", "pack", "direct", "tensor_gemm -DTOTAL=1", "tensor_gemm -DSTAGES=4", "tensor_gemm -DX_SIGNED=0",
        "tensor_gemm -DX_SIGNED=1", "tensor_gemm -DPANELS=1", "tensor_gemm -DPANELS=2", "tensor_gemm -DPANELS=4",
        "tensor_gemm -DPANELS=8", "tensor_gemm -DCOLUMNS=64", "tensor_gemm -DDST_CHANNELS=1", "depthwise -DUNIT=0",
        "depthwise -DUNIT=1", "depthwise -DX_SIGNED=1"}) {
    tried().expect(fact);
  }
}

}  // namespace
}  // namespace ortconv::cuda

// Plans carried out by the emulator against the definition of the ops; exact, see CaseMaker::values.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "cuda/plan/describe.h"
#include "cuda/plan/gemm_plan.h"
#include "testing/cuda/plans.h"
#include "testing/cuda/tensors.h"
#include "testing/cuda/tried.h"
#include "testing/gpu/run.h"

namespace ortconv::cuda {
namespace {

struct Setting {
  Device device;
  Options options;
  bool packed;
  emulator::Choices choices;
  int64_t skew = 0;     // of all tensors
  int64_t tiling = -1;  // index of a possible tiling, modulo their number; -1: the choice of the plan
};

std::string describe(const Setting& s) {
  return test::describe("sm ", s.device.sm, " multiprocessors ", s.device.multiprocessors,
                        s.options.tf32 ? " tf32" : "", s.packed ? " packed before" : "", " order ", s.choices.order,
                        s.choices.late_copies ? " late copies" : "", " skew ", s.skew, " tiling ", s.tiling);
}

template <class T>
struct Tensors {
  std::vector<T> src, wei, bias, residual;
};

Tried& tried() {
  static Tried all;
  return all;
}

// Notes what is to run; true where something about it is new.
bool note(const std::vector<Launch>& launches, const Setting& s, bool has_bias, const std::string& about) {
  bool is_new =
      tried().add(launches, {s.skew != 0 ? "skewed" : "aligned", s.choices.late_copies ? "late copies" : "early copies",
                             s.packed ? "packed before" : "packed by the run", has_bias ? "bias" : "no bias", about});
  for (const Launch& launch : launches) {
    std::string shape = launch.program.source;
    for (const std::string& option : launch.program.options) {
      for (const char* name : {"-DCOLUMNS=", "-DPANELS=", "-DSRC_CH"}) {
        if (option.rfind(name, 0) == 0) shape += ' ' + option;
      }
    }
    is_new |= tried().add(shape);
  }
  return is_new;
}

// What the plan makes of the tensors; none where they are left out.
template <class T>
std::optional<std::vector<T>> run(DataType dtype, kernels::Op op, const ConvProblem& p, const Tensors<T>& in,
                                  size_t count, const Setting& s, const std::string& what,
                                  const std::string& about = "") {
  const bool has_bias = !in.bias.empty();
  const bool has_residual = !in.residual.empty();
  Terms terms;
  terms.bias = has_bias;
  terms.residual = has_residual;
  Plan plan = plan_run(dtype, op, p, s.device, s.options, s.packed, terms);
  if (s.tiling >= 0 && !has_residual && !plan.launches.empty()) {
    plan_gemm(dtype, op, p, s.device, s.options, s.packed, {has_bias}, &plan, [&](const std::vector<Tiling>& tilings) {
      return std::cref(tilings[static_cast<size_t>(s.tiling) % tilings.size()]);
    });
  }
  const WeightPlan weights = s.packed ? plan_weights(dtype, op, p, s.device, s.options) : WeightPlan();
  std::vector<Launch> launches = weights.launches;
  launches.insert(launches.end(), plan.launches.begin(), plan.launches.end());
  for (const Launch& launch : launches) expect_within_limits(launch, s.device, what);
  if (!tried().is_wanted(note(launches, s, has_bias, about))) return std::nullopt;
  DeviceMemory packed(weights.packed_bytes), scratch(plan.scratch_bytes);
  T ones;
  std::memset(static_cast<void*>(&ones), 0xff, sizeof ones);
  const Tensor<T> src(in.src, s.skew), wei(in.wei, s.skew), bias(in.bias, s.skew), residual(in.residual, s.skew);
  const Tensor<T> dst(std::vector<T>(count, ones), s.skew);
  emulator::Memory memory;
  src.put(Buffer::kX, ptx::Content::kDefined, &memory);
  wei.put(Buffer::kW, ptx::Content::kDefined, &memory);
  bias.put(Buffer::kB, ptx::Content::kDefined, &memory);
  residual.put(Buffer::kResidual, ptx::Content::kDefined, &memory);
  dst.put(Buffer::kY, ptx::Content::kResult, &memory);
  memory.set(Buffer::kPacked, packed.data(), weights.packed_bytes, ptx::Content::kUndefined);
  memory.set(Buffer::kScratch, scratch.data(), plan.scratch_bytes, ptx::Content::kUndefined);
  for (const Launch& launch : launches) emulator::run(launch, s.device.sm, memory, s.choices);
  return dst.values();
}

template <class T>
void check(CaseMaker& maker, const Case& c, DataType dtype, const ConvProblem& p, const Setting& s) {
  Tensors<T> in;
  in.src = maker.values<T>(test::count_of(c.x));
  in.wei = maker.values<T>(test::count_of(c.w));
  in.bias = maker.values<T>(c.bias ? p.oc : 0);
  in.residual = maker.values<T>(c.residual ? count_outputs(p) : 0);
  const std::string what = test::describe("type ", static_cast<int>(dtype), ' ', c.describe(), " on ", describe(s));
  try {
    const auto dst = run(dtype, c.op(), p, in, static_cast<size_t>(test::count_of_dst(p)), s, what);
    if (!dst) return;
    const std::vector<T> expected =
        test::oracle(p, c.op(), in.src.data(), in.wei.data(), c.bias ? in.bias.data() : nullptr,
                     c.residual ? in.residual.data() : nullptr);
    EXPECT(dst->size() == expected.size(), what, ": ", dst->size(), " elements");
    for (size_t i = 0; i < dst->size(); ++i) {
      if (std::memcmp(&(*dst)[i], &expected[i], sizeof(T)) == 0) continue;
      EXPECT(false, what, ": element ", i, " of ", dst->size(), " is ", test::widen((*dst)[i]), " not ",
             test::widen(expected[i]));
      break;
    }
  } catch (const Error& error) {
    EXPECT(false, what, ": ", error.what());
  }
}

void check(CaseMaker& maker, const Case& c, DataType dtype, const ConvProblem& p, const Setting& s) {
  if (dtype == DataType::kFloat) check<float>(maker, c, dtype, p, s);
  if (dtype == DataType::kFloat16) check<Float16>(maker, c, dtype, p, s);
  if (dtype == DataType::kBfloat16) check<Bfloat16>(maker, c, dtype, p, s);
}

Setting draw_setting(CaseMaker& maker) {
  Setting s;
  s.device = kDevices[maker.draw(0, 3)];
  s.device.multiprocessors = static_cast<int>(maker.draw(1, 4));
  s.options.tf32 = maker.draw(0, 3) == 0;
  s.packed = maker.draw(0, 1) == 0;
  s.choices.order = static_cast<unsigned>(maker.draw(0, 5));
  s.choices.late_copies = maker.draw(0, 1) == 0;
  constexpr int64_t kSkews[] = {0, 0, 1, 0, 0, 3};
  s.skew = kSkews[s.choices.order];
  return s;
}

constexpr int kCases = 200;

// ORTCONV_CUDA_TEST_CASES asks for more, or for fewer.
int wanted_cases() {
  const char* const wanted = std::getenv("ORTCONV_CUDA_TEST_CASES");
  return wanted != nullptr ? std::atoi(wanted) : kCases;
}

TEST(random_problems) {
  const int cases = wanted_cases();
  CaseMaker maker(7);
  int taken = 0;
  for (int i = 0; i < cases; ++i) {
    const Case c = maker.make(static_cast<int>(maker.draw(1, 6)));
    const DataType dtype = kTypes[maker.draw(0, 2)];
    const Setting setting = draw_setting(maker);
    ConvProblem p;
    try {
      p = c.problem(dtype);
    } catch (const Error&) {
      continue;
    }
    check(maker, c, dtype, p, setting);
    ++taken;
  }
  EXPECT(taken >= cases / 2, "only ", taken, " cases were taken");
}

// Every tiling of some problems with many phases, on the device with the least shared memory.
TEST(tilings) {
  CaseMaker maker(17);
  for (const int64_t stride : {4, 8}) {
    Case c;
    c.attributes = test::attributes(ConvOp::kConvTranspose, 1);
    c.attributes.strides = {stride};
    c.attributes.pads = {1, 2};
    c.x = {2, 64, 150};
    c.w = {64, 40, 2 * stride};
    const ConvProblem p = c.problem(DataType::kFloat16);
    Setting setting{{75, 2, 64 << 10}, {}, false, {3, false}};
    int64_t count = 1;
    for (setting.tiling = 0; setting.tiling < count; ++setting.tiling) {
      Plan plan;
      plan_gemm(DataType::kFloat16, c.op(), p, setting.device, {}, false, {true}, &plan,
                [&count](const std::vector<Tiling>& tilings) {
                  count = static_cast<int64_t>(tilings.size());
                  return std::cref(tilings[0]);
                });
      check(maker, c, DataType::kFloat16, p, setting);
    }
    EXPECT(count >= 9, count, " tilings");
  }
}

// Channels and positions for many tiles and steps, and for splits of the sum.
TEST(wide_problems) {
  const int cases = wanted_cases() * 2 / 5;
  CaseMaker maker(11);
  for (int i = 0; i < cases; ++i) {
    const int ndims = static_cast<int>(maker.draw(1, 2));
    const bool transposed = maker.draw(0, 3) != 0, channels_last = maker.draw(0, 1) == 0;
    Case c;
    ConvAttributes& a = c.attributes = test::attributes(transposed ? ConvOp::kConvTranspose : ConvOp::kConv, ndims);
    a.group = maker.draw(0, 3) == 0 ? 2 : 1;
    const int64_t ic = maker.draw(1, 9) * (maker.draw(0, 1) == 0 ? 16 : 13) * a.group;
    const int64_t oc = (maker.draw(0, 2) == 0 ? maker.draw(1, 4) : maker.draw(10, 150)) * a.group;
    c.x = {maker.draw(1, 2), ic};
    c.w = transposed ? Shape{ic, oc / a.group} : Shape{oc, ic / a.group};
    for (int axis = 0; axis < ndims; ++axis) {
      c.x.push_back(ndims == 1 ? maker.draw(20, 300) : maker.draw(3, 14));
      a.strides[axis] = maker.draw(0, 7) == 0 ? 4 * maker.draw(1, 2) : maker.draw(1, 3);
      c.w.push_back(maker.draw(0, 1) == 0 ? a.strides[axis] * maker.draw(1, 2) : maker.draw(1, 4));
      a.pads[axis] = maker.draw(0, 1);
    }
    if (channels_last) make_channels_last(&c);
    if (maker.draw(0, 2) == 0) a.activation = {0.25f, -60.0f, 120.0f};
    const DataType dtype = kTypes[maker.draw(0, 2)];
    Setting setting = draw_setting(maker);
    if (maker.draw(0, 3) != 0) setting.tiling = maker.draw(0, 1000);
    ConvProblem p;
    try {
      p = c.problem(dtype);
    } catch (const Error&) {
      continue;  // a kernel larger than its input
    }
    check(maker, c, dtype, p, setting);
  }
}

TEST(depthwise_problems) {
  const int cases = wanted_cases() / 4;
  CaseMaker maker(13);
  for (int i = 0; i < cases; ++i) {
    const int ndims = static_cast<int>(maker.draw(1, 3));
    const bool transposed = maker.draw(0, 3) != 0;
    Case c;
    ConvAttributes& a = c.attributes = test::attributes(transposed ? ConvOp::kConvTranspose : ConvOp::kConv, ndims);
    a.group = maker.draw(2, 70);
    const int64_t icg = maker.draw(1, 2), ocg = maker.draw(1, 2);
    c.x = {maker.draw(1, 2), a.group * icg};
    c.w = transposed ? Shape{a.group * icg, ocg} : Shape{a.group * ocg, icg};
    for (int axis = 0; axis < ndims; ++axis) {
      c.x.push_back(ndims == 1 ? maker.draw(20, 200) : maker.draw(3, ndims == 2 ? 12 : 5));
      a.strides[axis] = maker.draw(1, axis == 0 ? 11 : 3);
      a.dilations[axis] = a.strides[axis] == 1 || !transposed ? maker.draw(1, 3) : 1;
      c.w.push_back(maker.draw(1, axis == 0 ? 9 : 3));
      a.pads[axis] = maker.draw(0, 3);
      a.pads[ndims + axis] = maker.draw(0, 1);
    }
    if (maker.draw(0, 1) == 0) make_channels_last(&c);
    if (maker.draw(0, 2) == 0) a.activation = {0.25f, -6.0f, 12.0f};
    const DataType dtype = kTypes[maker.draw(0, 2)];
    const Setting setting = draw_setting(maker);
    ConvProblem p;
    try {
      p = c.problem(dtype);
    } catch (const Error&) {
      continue;  // a kernel larger than its input
    }
    const Plan plan = plan_run(dtype, c.op(), p, setting.device, setting.options, false, {c.bias});
    EXPECT(plan.launches.empty() || plan.launches[0].function == "depthwise", c.describe());
    check(maker, c, dtype, p, setting);
  }
}

template <class T>
void check_infinities(DataType dtype, const Case& c, bool in_weights, const Setting& s) {
  const ConvProblem p = c.problem(dtype);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  Tensors<T> in;
  in.src.assign(test::count_of(c.x), test::narrow<T>(1.0));
  in.wei.assign(test::count_of(c.w), test::narrow<T>(1.0));
  in.src[40] = test::narrow<T>(-kInfinity);
  in.src[100] = test::narrow<T>(kInfinity - kInfinity);
  if (in_weights) {
    in.wei[5] = test::narrow<T>(kInfinity);
    in.wei[31] = test::narrow<T>(kInfinity - kInfinity);
  }
  const std::vector<T> expected = test::oracle<T>(p, c.op(), in.src.data(), in.wei.data(), nullptr);
  const std::string what = test::describe("type ", static_cast<int>(dtype), ' ', c.describe(), " on ", describe(s));
  const auto dst = run(dtype, c.op(), p, in, expected.size(), s, what,
                       test::describe("infinities of type ", static_cast<int>(dtype), in_weights ? " in weights" : ""));
  for (size_t i = 0; dst && i < dst->size(); ++i) {
    const double found = test::widen((*dst)[i]), wanted = test::widen(expected[i]);
    EXPECT(found == wanted || (found != found && wanted != wanted), what, ": element ", i, ": ", found, " not ",
           wanted);
  }
}

// A value reaches exactly the outputs that its taps reach, infinities and NaN included.
TEST(infinities_stay_where_they_belong) {
  for (const int64_t ker : {3, 4}) {
    for (const bool in_weights : {false, true}) {
      for (const int sm : {75, 90}) {
        for (const bool tf32 : {false, true}) {
          Case c;
          c.attributes = test::attributes(ConvOp::kConvTranspose, 2);
          c.attributes.strides = {2, 2};
          c.attributes.pads = {1, 1, 0, 0};
          c.x = {1, 3, 9, 9};
          c.w = {3, 18, ker, ker};
          c.bias = false;
          Setting s{{sm, 2, 64 << 10}, {tf32}, in_weights, {}};
          if (!tf32) check_infinities<Float16>(DataType::kFloat16, c, in_weights, s);
          if (!tf32) check_infinities<Bfloat16>(DataType::kBfloat16, c, in_weights, s);
          check_infinities<float>(DataType::kFloat, c, in_weights, s);
        }
      }
    }
  }
}

// The tests above leave out no way of forming products, unless they are cut short.
TEST(every_tiling_was_tried) {
  if (wanted_cases() < kCases) return;
  std::vector<std::string> facts = {"gather",
                                    "float_gemm -DTOTAL=1",
                                    "tensor_gemm -DTOTAL=1",
                                    "tensor_gemm -DSTAGES=3",
                                    "tensor_gemm -DRAGGED=1",
                                    "tensor_gemm -DTF32=1",
                                    "tensor_gemm -DTOGETHER=4",
                                    "tensor_gemm -DTOGETHER=8",
                                    "tensor_gemm -DWHOLE_STEPS=1",
                                    "float_gemm -DELEMENT=2",
                                    "float_gemm -DRAGGED=1",
                                    "depthwise -DPHASES=8",
                                    "depthwise -DKER=0",
                                    "depthwise -DKER=3",
                                    "depthwise -DUNIT=0",
                                    "depthwise -DUNIT=1",
                                    "direct",
                                    "add -DACTIVATE=0",
                                    "add -DACTIVATE=1"};
  for (const char* shape : {"128 -DPANELS=1", "128 -DPANELS=2", "128 -DPANELS=4", "64 -DPANELS=4"}) {
    for (const char* chunks : {"0", "1"}) {
      facts.push_back(test::describe("tensor_gemm -DCOLUMNS=", shape, " -DSRC_CHUNKS=", chunks));
    }
  }
  facts.push_back("tensor_gemm -DCOLUMNS=128 -DPANELS=8 -DSRC_CHUNKS=1");
  for (const char* shape : {"256 -DPANELS=1", "128 -DPANELS=2", "128 -DPANELS=4", "64 -DPANELS=4", "128 -DPANELS=8"}) {
    for (const char* channels : {"0", "1"}) {
      facts.push_back(test::describe("float_gemm -DCOLUMNS=", shape, " -DSRC_CHANNELS=", channels, " -DSRC_CHUNKS=0"));
    }
  }
  for (const std::string& fact : facts) tried().expect(fact);
}

}  // namespace
}  // namespace ortconv::cuda

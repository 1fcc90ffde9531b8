// Plans of transposed convolutions of 8-bit integers, and of convolutions of either direction to quantized results,
// carried out by the emulator: equal to sums by the definition, of whose operations each is rounded to float.
#include <string>

#include "testing/cuda/integer_runs.h"
#include "testing/cuda/quantized_cases.h"

namespace ortconv::cuda {
namespace {

using test::draw_case;
using test::draw_result;
using Kind = test::QuantizedKind;

void check_drawn(CaseMaker& maker, Kind kind, const Case& c, bool suitable, const Setting& setting,
                 const std::string& about = "") {
  ConvProblem p;
  try {
    p = c.problem(DataType::kInt8);
  } catch (const Error&) {
    return;  // a kernel larger than its input, or an empty result
  }
  if (test::count_of_dst(p) == 0) return;
  if (maker.draw(0, 1) == 0) p.activation = {maker.draw(0, 1) == 0 ? 0.125f : 1, -300, 2000};
  IntegerTensors t = draw_tensors(maker, c, p, Zeros::kOne, suitable);
  if (kind == Kind::kAffine && t.w_signed) p.activation.hard_sigmoid = {0.01f, 0.5f};
  draw_result(maker, kind, c, p, &t);
  check(t, c, p, setting, about);
}

Kind draw_kind(CaseMaker& maker) { return static_cast<Kind>(maker.draw(0, 3)); }

TEST(random_problems) {
  CaseMaker maker(131);
  for (int i = 0; i < wanted_cases(); ++i) {
    const int64_t group = maker.draw(0, 2) == 0 ? maker.draw(2, 3) : 1;
    const Kind kind = draw_kind(maker);
    const Case c =
        draw_case(maker, kind, static_cast<int>(maker.draw(1, 3)), group, maker.draw(1, 40), maker.draw(1, 40));
    check_drawn(maker, kind, c, maker.draw(0, 5) != 0, draw_setting(maker));
  }
}

// Kernels that are multiples of the stride: all phases have as many taps, and together they are written to lines.
TEST(uniform_phases) {
  CaseMaker maker(137);
  for (int i = 0; i < wanted_cases() / 3; ++i) {
    const Kind kind = static_cast<Kind>(maker.draw(0, 2));
    const auto ndims = static_cast<int>(maker.draw(1, 3));
    Case c = draw_case(maker, kind, ndims, maker.draw(1, 2), maker.draw(1, 40), maker.draw(1, 40));
    for (int axis = 0; axis < ndims; ++axis) {
      const int64_t stride = c.attributes.strides[axis] = maker.draw(0, 3) == 0 ? 4 : maker.draw(1, 2);
      c.attributes.dilations[axis] = 1;
      c.attributes.output_padding[axis] = 0;
      c.w[2 + axis] = stride * maker.draw(1, 2);
    }
    check_drawn(maker, kind, c, true, draw_setting(maker));
  }
}

// Channels and positions for many tiles and steps, and for splits of the sum.
TEST(wide_problems) {
  CaseMaker maker(139);
  for (int i = 0; i < wanted_cases() / 3; ++i) {
    const int64_t icg = maker.draw(1, 5) * (maker.draw(0, 1) == 0 ? 64 : 50);
    const Kind kind = draw_kind(maker);
    const Case c = draw_case(maker, kind, static_cast<int>(maker.draw(1, 2)), 1, icg, maker.draw(10, 150));
    Setting setting = draw_setting(maker);
    if (maker.draw(0, 3) != 0) setting.tiling = maker.draw(0, 1000);
    check_drawn(maker, kind, c, maker.draw(0, 9) != 0, setting);
  }
}

TEST(depthwise_problems) {
  CaseMaker maker(149);
  for (int i = 0; i < wanted_cases() / 2; ++i) {
    const Kind kind = draw_kind(maker);
    const auto ndims = static_cast<int>(maker.draw(1, 3));
    Case c = draw_case(maker, kind, ndims, maker.draw(2, 70), maker.draw(1, 2), maker.draw(1, 2));
    if (ndims == 1 && maker.draw(0, 1) == 0) c.w[2] = maker.draw(17, 24);  // more than registers hold
    check_drawn(maker, kind, c, maker.draw(0, 1) == 0, draw_setting(maker));
  }
}

// Padding that leaves out positions at the begin and end of X.
TEST(cropped_problems) {
  CaseMaker maker(151);
  for (const int64_t pad : {7, 12}) {
    for (const Kind kind : {Kind::kToFloat, Kind::kQuantized, Kind::kQuantizedAdd}) {
      Case c = draw_case(maker, kind, 1, 1, 20, 20);
      c.x[2] = 30, c.w[2] = 3;
      c.attributes.strides = {2};
      c.attributes.dilations = {1};
      c.attributes.output_padding = {0};
      c.attributes.pads = {pad, pad + 1};
      check_drawn(maker, kind, c, true, draw_setting(maker), "cropped");
    }
  }
}

// Taps so far apart that X with what lies in between is not copied.
TEST(wide_dilations) {
  CaseMaker maker(157);
  for (int i = 0; i < 8; ++i) {
    const auto kind = static_cast<Kind>(i % 4);
    Case c = draw_case(maker, kind, 1, 1, 8, 8);
    c.x[2] = kind == Kind::kAffine ? 7000 : 30, c.w[2] = 2;
    c.attributes.strides = {kind == Kind::kAffine ? 500 : 1};
    c.attributes.dilations = {6000};
    c.attributes.output_padding = {0};
    c.attributes.pads = kind == Kind::kAffine ? Shape{40000, 40000} : Shape{3000, 3000};
    check_drawn(maker, kind, c, true, draw_setting(maker), "wide dilation");
  }
}

// The tests above leave out no way of forming sums or results, unless they are cut short.
TEST(every_way_was_tried) {
  if (wanted_cases() < 60) return;
  for (const char* source : {"direct", "tensor_gemm", "depthwise"}) {
    for (const char* fact : {"-DQUANTIZED=0", "-DY_SIGNED=0", "-DY_SIGNED=1", "residual", "affine", "bias of elements",
                             "scales of channels", "-DACTIVATE=0", "-DACTIVATE=1"}) {
      if (std::string(source) != "direct" || fact[0] == '-') tried().expect(std::string(source) + ' ' + fact);
    }
  }
  for (const char* fact :
       {"gather", "pack", "tensor_gemm -DTOTAL=1", "tensor_gemm -DRAGGED=0", "tensor_gemm -DRAGGED=1",
        "tensor_gemm -DPANELS=1", "tensor_gemm -DPANELS=2", "tensor_gemm -DPANELS=4", "tensor_gemm -DPANELS=8",
        "tensor_gemm -DTOGETHER=1", "tensor_gemm -DTOGETHER=2", "tensor_gemm -DTOGETHER=4",
        "tensor_gemm -DDST_CHANNELS=0", "depthwise -DTRANSPOSED=0", "depthwise -DTRANSPOSED=1", "depthwise -DKER=0",
        "depthwise -DUNIT=0", "depthwise -DUNIT=1"}) {
    tried().expect(fact);
  }
}

}  // namespace
}  // namespace ortconv::cuda

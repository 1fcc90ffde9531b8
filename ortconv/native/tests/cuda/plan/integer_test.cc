// Plans of convolutions of 8-bit integers, carried out by the emulator, against sums by the definition of
// ConvIntegerToFloat.
#include <vector>

#include "testing/cuda/integer_runs.h"

namespace ortconv::cuda {
namespace {

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
    if (test::kSanitized && sm == 75) continue;  // each takes twenty seconds
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

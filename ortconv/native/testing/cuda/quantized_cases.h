// Transposed convolutions of 8-bit integers, and convolutions of either direction to quantized results, to test with.
#pragma once

#include "testing/cuda/integer_cases.h"

namespace ortconv::test {

// The four operators.
enum class QuantizedKind { kToFloat, kQuantized, kQuantizedAdd, kAffine };

inline ConvOp direction_of(QuantizedKind kind) {
  return kind == QuantizedKind::kAffine ? ConvOp::kConv : ConvOp::kConvTranspose;
}

// Channels of a group; sizes are small.
inline Case draw_case(CaseMaker& maker, QuantizedKind kind, int ndims, int64_t group, int64_t icg, int64_t ocg) {
  Case c;
  ConvAttributes& a = c.attributes = attributes(direction_of(kind), ndims);
  a.group = group;
  c.bias = true;
  c.x = {maker.draw(1, 2), group * icg};
  c.w = a.transposed() ? Shape{group * icg, ocg} : Shape{group * ocg, icg};
  for (int axis = 0; axis < ndims; ++axis) {
    c.x.push_back(ndims == 1 ? maker.draw(4, 90) : maker.draw(2, ndims == 2 ? 10 : 4));
    c.w.push_back(maker.draw(1, ndims == 3 ? 3 : 5));
    a.strides[axis] = maker.draw(0, 5) == 0 ? maker.draw(4, 9) : maker.draw(1, 3);
    a.dilations[axis] = maker.draw(0, 2) == 0 ? maker.draw(2, 3) : 1;
    a.pads[axis] = maker.draw(0, 4);
    a.pads[ndims + axis] = maker.draw(0, 4);
    if (a.transposed()) a.output_padding[axis] = maker.draw(0, a.strides[axis] - 1);
  }
  return c;
}

// What the operators have beyond ConvIntegerToFloat.
inline void draw_result(CaseMaker& maker, QuantizedKind kind, const Case& c, const ConvProblem& p, IntegerTensors* t) {
  t->op = c.op();
  if (t->x_zero.empty()) t->x_zero = {draw_code(maker)};
  t->w_scale.clear();
  const int64_t scales = maker.draw(0, 1) == 0 ? 1 : p.oc;
  for (int64_t i = 0; i < scales; ++i) t->w_scale.push_back(draw_scale(maker));
  if (kind == QuantizedKind::kToFloat) return;
  // So that results are of all sizes, and some saturate.
  t->y_signed = maker.draw(0, 1) == 0;
  t->y_scale = {draw_scale(maker) * static_cast<float>(maker.draw(1, 400))};
  t->y_zero = {draw_code(maker)};
  const int64_t outputs = count_of_dst(p);
  if (kind == QuantizedKind::kQuantizedAdd) {
    for (int64_t i = 0; i < outputs; ++i) t->residual.push_back(draw_code(maker));
    t->residual_scale = {draw_scale(maker) * static_cast<float>(maker.draw(1, 300))};
    t->residual_zero = {draw_code(maker)};
  }
  if (kind != QuantizedKind::kAffine) return;
  for (int64_t i = 0; i < p.oc; ++i) {
    t->factor.push_back(static_cast<float>(maker.draw(-30, 60)) / 17.0f);
    t->addend.push_back(static_cast<float>(maker.draw(-300, 300)) / 13.0f);
  }
  t->has_element_bias = maker.draw(0, 1) == 0;
  if (!t->has_element_bias) return;
  t->bias.clear();
  for (int64_t i = 0; i < outputs / p.mb; ++i) t->bias.push_back(static_cast<float>(maker.draw(-999, 999)) / 7.0f);
}

}  // namespace ortconv::test

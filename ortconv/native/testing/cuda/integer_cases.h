// Test cases of convolutions of 8-bit integers, with the results that the definitions of the operators give.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "cuda/plan/plan.h"
#include "testing/cases.h"

namespace ortconv::test {

using cuda::Elements;

enum class Zeros { kNone, kOne, kChannels };

// Codes of a convolution, and what they mean.
struct IntegerTensors {
  bool x_signed, w_signed;
  std::vector<uint8_t> x, w;
  std::vector<uint8_t> x_zero, w_zero;  // empty: none
  std::vector<float> x_scale, w_scale, bias;

  kernels::Op op = kernels::Op::kConv;

  // Of 8-bit results; empty: none.
  bool y_signed = false, has_element_bias = false;
  std::vector<float> y_scale = {}, residual_scale = {}, factor = {}, addend = {};
  std::vector<uint8_t> y_zero = {}, residual = {}, residual_zero = {};

  bool quantized() const { return !y_scale.empty(); }

  Elements elements() const {
    const auto type = [](bool is_signed) { return is_signed ? DataType::kInt8 : DataType::kUint8; };
    Elements result(type(x_signed), type(w_signed), quantized() ? type(y_signed) : DataType::kFloat);
    result.channels_have_scales = w_scale.size() > 1;
    result.channels_have_zeros = w_zero.size() > 1;
    return result;
  }

  cuda::Terms terms() const {
    cuda::Terms result;
    result.bias = !bias.empty() && !has_element_bias;
    result.element_bias = has_element_bias;
    result.residual = !residual.empty();
    result.affine = !factor.empty();
    return result;
  }
};

inline int64_t value_of(uint8_t code, bool is_signed) { return is_signed ? static_cast<int8_t>(code) : code; }

inline uint8_t draw_code(CaseMaker& maker) { return static_cast<uint8_t>(maker.draw(0, 255)); }
inline float draw_scale(CaseMaker& maker) { return static_cast<float>(maker.draw(1, 1000)) / 3000.0f; }

// How the weights lie: around their zero points, so that they have 8 bits without them, or anywhere.
inline IntegerTensors draw_tensors(CaseMaker& maker, const Case& c, const ConvProblem& p, Zeros zeros, bool suitable) {
  IntegerTensors t;
  t.x_signed = maker.draw(0, 1) == 0;
  t.w_signed = maker.draw(0, 1) == 0;
  const auto code = [&maker] { return draw_code(maker); };
  for (int64_t i = count_of(c.x); i-- > 0;) t.x.push_back(maker.draw(0, 7) == 0 ? 0xff : code());
  for (int64_t i = count_of(c.w); i-- > 0;) {
    t.w.push_back(suitable && !t.w_signed && zeros == Zeros::kNone ? code() % 128 : code());
  }
  if (maker.draw(0, 2) != 0) t.x_zero = {code()};
  const int64_t channels = zeros == Zeros::kChannels ? p.oc : 1;
  for (int64_t i = 0; i < channels && zeros != Zeros::kNone; ++i) {
    t.w_zero.push_back(!suitable ? code() : t.w_signed ? 0 : 0x80);
  }
  if (suitable && !t.w_zero.empty() && !t.w.empty()) {
    // A zero point that is not the middle of all codes, with weights that it leaves 8 bits.
    const int64_t per_channel = static_cast<int64_t>(t.w.size()) / p.oc;
    t.w_zero[0] = t.w_signed ? 0xfe : 0x82;
    for (int64_t i = 0; i < per_channel * (channels == 1 ? p.oc : 1); ++i) {
      const int64_t value = value_of(t.w[static_cast<size_t>(i)], t.w_signed);
      if (value - value_of(t.w_zero[0], t.w_signed) < -128) t.w[static_cast<size_t>(i)] = t.w_signed ? 0x80 : 2;
      if (value - value_of(t.w_zero[0], t.w_signed) > 127) t.w[static_cast<size_t>(i)] = t.w_signed ? 0x7d : 0xff;
    }
  }
  const auto scale = [&maker] { return draw_scale(maker); };
  t.x_scale = {scale()};
  for (int64_t i = 0; i < (zeros == Zeros::kChannels ? p.oc : 1); ++i) t.w_scale.push_back(scale());
  for (int64_t i = 0; i < (c.bias ? p.oc : 0); ++i) t.bias.push_back(static_cast<float>(maker.draw(-999, 999)) / 7.0f);
  return t;
}

// The position of X that a tap takes to output y of an axis; negative where there is none.
inline int64_t source_of(kernels::Op op, const ConvProblem& p, int axis, int64_t y, int64_t tap) {
  int64_t at = y * p.stride[axis] - p.pad[axis] + tap * p.dilation[axis];
  if (op == kernels::Op::kConvTranspose) {
    const int64_t distance = y + p.pad[axis] - tap * p.dilation[axis];
    at = distance >= 0 && distance % p.stride[axis] == 0 ? distance / p.stride[axis] : -1;
  }
  return at < p.src_size[axis] ? at : -1;
}

// The sum of one output by the definition: taps beyond X add nothing.
inline int64_t sum_at(const IntegerTensors& t, const ConvProblem& p, int64_t image, int64_t channel,
                      const std::vector<int64_t>& y) {
  const int64_t icg = p.ic / p.g, ocg = p.oc / p.g, x_zero = t.x_zero.empty() ? 0 : value_of(t.x_zero[0], t.x_signed);
  const int64_t w_zero =
      t.w_zero.empty() ? 0 : value_of(t.w_zero[t.w_zero.size() == 1 ? 0 : static_cast<size_t>(channel)], t.w_signed);
  int64_t taps = 1;
  for (int a = 0; a < p.ndims; ++a) taps *= p.ker[a];
  int64_t sum = 0;
  for (int64_t c = channel / ocg * icg; c < (channel / ocg + 1) * icg; ++c) {
    const int64_t filter = t.op == kernels::Op::kConvTranspose ? c * ocg + channel % ocg : channel * icg + c % icg;
    std::vector<int64_t> tap(static_cast<size_t>(p.ndims), 0);
    int64_t number = 0;
    do {
      int64_t from = image * p.ic + c;
      bool inside = true;
      for (int a = 0; a < p.ndims; ++a) {
        const auto axis = static_cast<size_t>(a);
        const int64_t at = source_of(t.op, p, a, y[axis], tap[axis]);
        inside = inside && at >= 0;
        from = from * p.src_size[a] + at;
      }
      const int64_t with = filter * taps + number++;
      if (!inside) continue;
      sum += (value_of(t.x[static_cast<size_t>(from)], t.x_signed) - x_zero) *
             (value_of(t.w[static_cast<size_t>(with)], t.w_signed) - w_zero);
    } while (next(&tap, p.ker));
  }
  return sum;
}

// What becomes of a sum. `i` is the output's place in Y, `in_image` that in its image. A sum, product or quotient of
// floats that is rounded to double and then to float is as if it were rounded once.
inline double result_of(const IntegerTensors& t, const ConvProblem& p, int64_t sum, size_t channel, size_t i,
                        size_t in_image) {
  const auto rounded = [](double value) { return static_cast<float>(value); };
  const auto wide = [](float value) { return static_cast<double>(value); };
  const float scale = rounded(wide(t.x_scale[0]) * wide(t.w_scale[t.w_scale.size() == 1 ? 0 : channel]));
  const auto exact = static_cast<float>(static_cast<int32_t>(static_cast<uint32_t>(sum)));
  float v = rounded(wide(exact) * wide(scale));
  if (!t.bias.empty()) v = rounded(wide(v) + wide(t.bias[t.has_element_bias ? in_image : channel]));
  if (!t.residual.empty()) {
    const int64_t shifted = value_of(t.residual[i], t.y_signed) - value_of(t.residual_zero[0], t.y_signed);
    v = rounded(wide(v) + wide(rounded(static_cast<double>(shifted) * wide(t.residual_scale[0]))));
  }
  if (v < 0) v = rounded(wide(v) * wide(p.activation.slope));
  v = std::min(std::max(v, p.activation.minimum), p.activation.maximum);
  if (!p.activation.hard_sigmoid.is_one()) {
    const HardSigmoid& gate = p.activation.hard_sigmoid;
    const float line = rounded(wide(rounded(wide(v) * wide(gate.alpha))) + wide(gate.beta));
    v = rounded(wide(v) * wide(std::min(std::max(line, 0.0f), 1.0f)));
  }
  if (!t.factor.empty()) v = rounded(wide(rounded(wide(v) * wide(t.factor[channel]))) + wide(t.addend[channel]));
  if (!t.quantized()) return wide(v);
  const double least = t.y_signed ? -128 : 0;
  const double integer = std::nearbyint(wide(rounded(wide(v) / wide(t.y_scale[0])))) +
                         static_cast<double>(value_of(t.y_zero[0], t.y_signed));
  return std::min(std::max(integer, least), least + 255);
}

// All outputs.
inline std::vector<double> expected_of(const IntegerTensors& t, const ConvProblem& p) {
  std::vector<double> result;
  const auto image_size = static_cast<size_t>(count_of_dst(p) / std::max<int64_t>(p.mb, 1));
  for (int64_t image = 0; image < p.mb; ++image) {
    for (int64_t channel = 0; channel < p.oc; ++channel) {
      std::vector<int64_t> y(static_cast<size_t>(p.ndims), 0);
      do {
        const size_t i = result.size();
        result.push_back(
            result_of(t, p, sum_at(t, p, image, channel, y), static_cast<size_t>(channel), i, i % image_size));
      } while (next(&y, p.dst_size));
    }
  }
  return result;
}

}  // namespace ortconv::test

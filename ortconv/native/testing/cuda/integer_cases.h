// Convolutions of 8-bit integers to test with, and what they must give: sums by the definition of ConvIntegerToFloat.
#pragma once

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

  Elements elements() const {
    Elements result(x_signed ? DataType::kInt8 : DataType::kUint8, w_signed ? DataType::kInt8 : DataType::kUint8);
    result.channels_have_scales = w_scale.size() > 1;
    return result;
  }
};

inline int64_t value_of(uint8_t code, bool is_signed) { return is_signed ? static_cast<int8_t>(code) : code; }

// How the weights lie: around their zero points, so that they have 8 bits without them, or anywhere.
inline IntegerTensors draw_tensors(CaseMaker& maker, const Case& c, const ConvProblem& p, Zeros zeros, bool suitable) {
  IntegerTensors t;
  t.x_signed = maker.draw(0, 1) == 0;
  t.w_signed = maker.draw(0, 1) == 0;
  const auto code = [&maker] { return static_cast<uint8_t>(maker.draw(0, 255)); };
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
  const auto scale = [&maker] { return static_cast<float>(maker.draw(1, 1000)) / 3000.0f; };
  t.x_scale = {scale()};
  for (int64_t i = 0; i < (zeros == Zeros::kChannels ? p.oc : 1); ++i) t.w_scale.push_back(scale());
  for (int64_t i = 0; i < (c.bias ? p.oc : 0); ++i) t.bias.push_back(static_cast<float>(maker.draw(-999, 999)) / 7.0f);
  return t;
}

// The outputs, as sums and as floats; what is not fused is rounded once more.
struct Expected {
  std::vector<float> fused, rounded;

  bool has(size_t i, float value) const { return value == fused[i] || value == rounded[i]; }
};

// The sum of one output by the definition: taps beyond X add nothing.
inline int64_t sum_at(const IntegerTensors& t, const ConvProblem& p, int64_t image, int64_t channel,
                      const std::vector<int64_t>& y) {
  const int64_t icg = p.ic / p.g, x_zero = t.x_zero.empty() ? 0 : value_of(t.x_zero[0], t.x_signed);
  const int64_t w_zero =
      t.w_zero.empty() ? 0 : value_of(t.w_zero[t.w_zero.size() == 1 ? 0 : static_cast<size_t>(channel)], t.w_signed);
  int64_t sum = 0;
  for (int64_t c = 0; c < icg; ++c) {
    std::vector<int64_t> tap(static_cast<size_t>(p.ndims), 0);
    int64_t number = 0;
    do {
      int64_t from = image * p.ic + channel / (p.oc / p.g) * icg + c;
      bool inside = true;
      for (int a = 0; a < p.ndims; ++a) {
        const int64_t at =
            y[static_cast<size_t>(a)] * p.stride[a] - p.pad[a] + tap[static_cast<size_t>(a)] * p.dilation[a];
        inside = inside && at >= 0 && at < p.src_size[a];
        from = from * p.src_size[a] + at;
      }
      int64_t taps = 1;
      for (int a = 0; a < p.ndims; ++a) taps *= p.ker[a];
      const int64_t with = (channel * icg + c) * taps + number++;
      if (!inside) continue;
      sum += (value_of(t.x[static_cast<size_t>(from)], t.x_signed) - x_zero) *
             (value_of(t.w[static_cast<size_t>(with)], t.w_signed) - w_zero);
    } while (next(&tap, p.ker));
  }
  return sum;
}

inline Expected expected_of(const IntegerTensors& t, const ConvProblem& p) {
  Expected result;
  for (int64_t image = 0; image < p.mb; ++image) {
    for (int64_t channel = 0; channel < p.oc; ++channel) {
      const auto index = static_cast<size_t>(channel);
      const float scale = t.x_scale[0] * t.w_scale[t.w_scale.size() == 1 ? 0 : index];
      const float bias = t.bias.empty() ? 0 : t.bias[index];
      std::vector<int64_t> y(static_cast<size_t>(p.ndims), 0);
      do {
        const auto sum =
            static_cast<float>(static_cast<int32_t>(static_cast<uint32_t>(sum_at(t, p, image, channel, y))));
        result.fused.push_back(std::fma(sum, scale, bias));
        const volatile float product = sum * scale;
        result.rounded.push_back(product + bias);
      } while (next(&y, p.dst_size));
    }
  }
  return result;
}

}  // namespace ortconv::test

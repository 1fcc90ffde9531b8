// The epilogue: from a sum to an element of dst.
#pragma once

#include "cuda/device/values.h"
#include "cuda/params/convolution.h"

namespace ortconv {
namespace cuda {

// What an output channel has besides weights.
struct Channel {
  float bias;
#if ELEMENT == 3
  float scale;
#endif
#if QUANTIZED
  float factor, addend;
#endif
};

__device__ inline Channel channel_of(const Problem& p, long long number) {
  Channel channel = {};
  if (p.bias != nullptr) channel.bias = to_float(static_cast<const Element*>(p.bias)[number]);
#if ELEMENT == 3
  channel.scale = *p.quantization.x_scale * p.quantization.w_scale[number * p.quantization.w_scale_step];
#endif
#if QUANTIZED
  if (p.result.factor != nullptr) channel.factor = p.result.factor[number], channel.addend = p.result.addend[number];
#endif
  return channel;
}

// The place of an element of dst: from its begin, and from that of its image.
struct Place {
  long long at, in_image;
};

#if ELEMENT == 3

// Every operation is rounded to float.
struct Epilogue {
#if QUANTIZED
  float y_scale, residual_scale;
  int y_zero, residual_zero;
#endif

  __device__ explicit Epilogue(const Problem& p) {
#if QUANTIZED
    const QuantizedResult& r = p.result;
    y_scale = *r.y_scale;
    y_zero = *static_cast<const DstElement*>(r.y_zero);
    residual_scale = r.residual != nullptr ? *r.residual_scale : 0.0f;
    residual_zero = r.residual != nullptr ? *static_cast<const DstElement*>(r.residual_zero) : 0;
#endif
  }

  // Whether results depend on their place.
  static __device__ bool needs_place(const Problem& p) {
#if QUANTIZED
    return p.result.residual != nullptr || p.result.biases != nullptr;
#else
    return false;
#endif
  }

  __device__ DstElement result(const Problem& p, const Channel& channel, Sum sum, const Place& place) const {
    const float scaled = multiply_rounded(static_cast<float>(static_cast<int>(sum)), channel.scale);
#if QUANTIZED
    const QuantizedResult& r = p.result;
    float value = add_rounded(scaled, r.biases != nullptr ? r.biases[place.in_image] : channel.bias);
    if (r.residual != nullptr) {
      const int shifted = static_cast<const DstElement*>(r.residual)[place.at] - residual_zero;
      value = add_rounded(value, multiply_rounded(static_cast<float>(shifted), residual_scale));
    }
    value = finish(value, p.slope, p.minimum, p.maximum);
    if (p.alpha != 0.0f || p.beta != 1.0f) {
      const float line = add_rounded(multiply_rounded(value, p.alpha), p.beta), above = line < 0.0f ? 0.0f : line;
      value = multiply_rounded(value, above > 1.0f ? 1.0f : above);
    }
    if (r.factor != nullptr) value = add_rounded(multiply_rounded(value, channel.factor), channel.addend);
    return quantized(divide_rounded(value, y_scale));
#else
    return finish(add_rounded(scaled, channel.bias), p.slope, p.minimum, p.maximum);
#endif
  }

#if QUANTIZED
  // NaN becomes the least integer, as on the CPU.
  __device__ DstElement quantized(float quotient) const {
    const float least = static_cast<float>((Y_SIGNED ? -128 : 0) - y_zero), most = least + 255;
    const float above = quotient > least ? quotient : least;
    return static_cast<DstElement>(round_half_even(above < most ? above : most) + y_zero);
  }
#endif
};

#else

// The sum includes the bias.
struct Epilogue {
  __device__ explicit Epilogue(const Problem&) {}
  __device__ DstElement result(const Problem& p, const Channel&, Sum sum, const Place&) const {
    return finish(sum, p.slope, p.minimum, p.maximum);
  }
};

#endif

}  // namespace cuda
}  // namespace ortconv

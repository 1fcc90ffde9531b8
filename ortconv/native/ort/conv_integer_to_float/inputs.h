// The inputs and attributes of ConvIntegerToFloat: X, W, x_scale, w_scale, and optionally x_zero_point, w_zero_point,
// B.
#pragma once

#include <array>
#include <cstddef>

#include "ops/conv_params.h"
#include "ort/abi/abi.h"
#include "ort/abi/attributes.h"

namespace ortconv {

struct IntegerConvInputs {
  static constexpr size_t kX = 0, kW = 1, kXScale = 2, kWScale = 3, kXZero = 4, kWZero = 5, kB = 6, kCount = 7;
  static constexpr size_t kRequired = 4;  // the first ones

  // Those of a run; null where the node has none. Throws Error when ONNX Runtime reports one, as everything here.
  IntegerConvInputs(const OrtApi* api, const OrtKernelContext* context);

  const OrtValue* operator[](size_t index) const { return values[index]; }

  std::array<const OrtValue*, kCount> values = {};
};

// As those of a Conv of 8-bit integers, whose axes are in ONNX's order. Checked.
ConvAttributes integer_conv_attributes(const AttributeSource& source);

// Refuses the shape of a scale or zero point that is not one number, or one for each of so many channels: [count].
// Returns how many numbers there are.
int64_t check_quantization(const char* input, const Shape& shape, int64_t count);

// The same for all scales and zero points of a run with so many output channels. Returns how many scales W has.
int64_t check_quantizations(const OrtApi* api, const IntegerConvInputs& inputs, int64_t channels);

}  // namespace ortconv

#include "ort/conv_integer_to_float/inputs.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "ort/abi/boundary.h"
#include "ort/abi/tensors.h"

namespace ortconv {

IntegerConvInputs::IntegerConvInputs(const OrtApi* api, const OrtKernelContext* context) {
  size_t count = 0;
  invoke<abi::KernelContextGetInputCount>(api, context, &count);
  for (size_t i = 0; i < std::min(count, values.size()); ++i) {
    invoke<abi::KernelContextGetInput>(api, context, i, &values[i]);
  }
}

ConvAttributes integer_conv_attributes(const AttributeSource& source) {
  ConvAttributes a;
  a.op = ConvOp::kConv;
  a.strides = source.integers("strides");
  a.dilations = source.integers("dilations");
  a.pads = source.integers("pads");
  a.group = source.integer("group");
  a.x_perm.resize(a.strides.size() + 2);
  std::iota(a.x_perm.begin(), a.x_perm.end(), int64_t{0});
  a.w_perm = a.y_perm = a.x_perm;
  a.accumulation_type = static_cast<int64_t>(DataType::kInt32);
  check_attributes(a, DataType::kInt8);
  return a;
}

int64_t check_quantization(const char* input, const Shape& shape, int64_t count) {
  if (shape.empty() || shape == Shape{1}) return 1;
  if (count != 1 && shape == Shape{count}) return count;
  fail("input ", input, " has shape ", to_string(shape), "; allowed: one number",
       count == 1 ? "" : ", or [" + std::to_string(count) + "]", ".");
}

int64_t check_quantizations(const OrtApi* api, const IntegerConvInputs& inputs, int64_t channels) {
  const auto check = [&](const char* name, size_t index, int64_t count) {
    return check_quantization(name, shape_of(api, inputs[index]), count);
  };
  check("x_scale", IntegerConvInputs::kXScale, 1);
  if (inputs[IntegerConvInputs::kXZero] != nullptr) check("x_zero_point", IntegerConvInputs::kXZero, 1);
  const int64_t scales = check("w_scale", IntegerConvInputs::kWScale, channels);
  if (inputs[IntegerConvInputs::kWZero] != nullptr) {
    const int64_t zeros = check("w_zero_point", IntegerConvInputs::kWZero, channels);
    if (zeros != scales)
      fail("inputs w_scale and w_zero_point have ", scales, " and ", zeros, " numbers; allowed: as many.");
  }
  return scales;
}

}  // namespace ortconv

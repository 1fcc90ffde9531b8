#include "ort/quantized_convolution/inputs.h"

#include <numeric>

#include "ort/abi/boundary.h"
#include "ort/abi/tensors.h"
#include "ort/conv_integer_to_float/inputs.h"

namespace ortconv {

QuantizedInputs::QuantizedInputs(const OrtApi* api, const OrtKernelContext* context, QuantizedOp op) {
  for (size_t i = 0; i < count(op); ++i) invoke<abi::KernelContextGetInput>(api, context, i, &values[i]);
}

ConvAttributes quantized_attributes(const AttributeSource& source) {
  ConvAttributes a;
  a.op = ConvOp::kConvTranspose;
  a.strides = source.integers("strides");
  a.dilations = source.integers("dilations");
  a.pads = source.integers("pads");
  a.output_padding = source.integers("output_padding");
  a.group = source.integer("group");
  a.x_perm.resize(a.strides.size() + 2);
  std::iota(a.x_perm.begin(), a.x_perm.end(), int64_t{0});
  a.w_perm = a.y_perm = a.x_perm;
  a.accumulation_type = static_cast<int64_t>(DataType::kFloat);
  check_attributes(a, DataType::kFloat);
  return a;
}

int64_t check_quantized_numbers(const OrtApi* api, const QuantizedInputs& inputs, QuantizedOp op, int64_t channels) {
  const auto check = [&](const char* name, size_t index, int64_t count) {
    return check_quantization(name, shape_of(api, inputs[index]), count);
  };
  check("x_scale", QuantizedInputs::kXScale, 1);
  check("x_zero_point", QuantizedInputs::kXZero, 1);
  check("w_zero_point", QuantizedInputs::kWZero, 1);
  if (op != QuantizedOp::kToFloat) {
    check("y_scale", QuantizedInputs::kYScale, 1);
    check("y_zero_point", QuantizedInputs::kYZero, 1);
  }
  if (op == QuantizedOp::kQuantizedAdd) {
    check("r_scale", QuantizedInputs::kRScale, 1);
    check("r_zero_point", QuantizedInputs::kRZero, 1);
  }
  return check("w_scale", QuantizedInputs::kWScale, channels);
}

}  // namespace ortconv

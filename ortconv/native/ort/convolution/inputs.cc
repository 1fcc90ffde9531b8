#include "ort/convolution/inputs.h"

#include "base/error.h"
#include "ort/abi/boundary.h"
#include "ort/abi/tensors.h"

namespace ortconv {

ConvInputs::ConvInputs(const OrtApi* api, const OrtKernelContext* context, ConvOp op) {
  const ConvIndices at(op);
  size_t count = 0;
  invoke<abi::KernelContextGetInputCount>(api, context, &count);
  const auto input = [&](size_t index) {
    const OrtValue* value = nullptr;
    if (index < count) invoke<abi::KernelContextGetInput>(api, context, index, &value);
    return value;
  };
  x = input(at.x);
  w = input(at.w);
  output_shape = op == ConvOp::kConvTransposeToShape ? input(at.output_shape) : nullptr;
  residual = op == ConvOp::kConvTransposeAdd ? input(at.residual) : nullptr;
  b = input(at.b);
}

std::vector<int64_t> output_shape_of(const OrtApi* api, const OrtValue* tensor) {
  const Shape shape = shape_of(api, tensor);
  if (shape.size() != 1) fail("input output_shape has shape ", to_string(shape), "; allowed: rank 1.");
  const auto* values = static_cast<const int64_t*>(data_of(api, tensor));
  return std::vector<int64_t>(values, values + shape[0]);
}

ConvAttributes read_attributes(ConvOp op, const AttributeSource& source) {
  ConvAttributes a;
  a.op = op;
  a.strides = source.integers("strides");
  a.dilations = source.integers("dilations");
  a.group = source.integer("group");
  a.x_perm = source.integers("x_perm");
  a.w_perm = source.integers("w_perm");
  a.y_perm = source.integers("y_perm");
  a.pads = source.integers(a.pads_name());
  if (a.transposed()) a.output_padding = source.integers("output_padding");
  if (a.has_auto_pad()) a.auto_pad = parse_auto_pad(source.integer("auto_pad"));
  a.accumulation_type = source.integer("accumulation_type");
  const std::vector<float> activation = source.numbers("activation");
  if (!activation.empty()) a.activation = parse_activation(activation);
  return a;
}

void infer_conv_shape(const OrtApi* api, const ConvAttributes& attributes, const InputShape& x, const InputShape& w,
                      int result, OrtShapeInferContext* context) {
  ConvProblem problem = weight_problem(attributes, w.dims);
  Shape x_dims = x.dims;
  const char* batch_name = nullptr;
  const auto batch_axis = static_cast<size_t>(attributes.x_perm[0]);
  if (batch_axis < x_dims.size() && x.has_name(batch_axis)) {
    batch_name = x.names[batch_axis];
    x_dims[batch_axis] = 1;  // any size will do
  }
  complete_problem(attributes, x_dims, nullptr, nullptr, &problem);

  const Shape y = output_dims(attributes, problem);
  std::vector<const char*> names(y.size(), "");
  for (size_t i = 0; batch_name != nullptr && i < y.size(); ++i) {
    if (attributes.y_perm[i] == 0) names[i] = batch_name;
  }

  set_output(api, context, result, y, names);
}

}  // namespace ortconv

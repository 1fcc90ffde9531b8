#include "ort/convolution/inputs.h"

#include "base/error.h"
#include "ort/abi/boundary.h"

namespace ortconv {

template <class Fn>
void ConvReader::for_each_input(Fn fn) const {
  const auto visit = [&](size_t index, auto member) {
    if (index < count_) fn(index, member);
  };
  visit(at_.x, &ConvInputs::x);
  visit(at_.w, &ConvInputs::w);
  visit(at_.output_shape, &ConvInputs::output_shape);
  visit(at_.residual, &ConvInputs::residual);
  visit(at_.b, &ConvInputs::b);
}

ConvReader::ConvReader(const OrtApi* api, const OrtKernelInfo* info, ConvOp op, Constants constants)
    : api_(api), at_(op) {
  invoke<abi::KernelInfoGetInputCount>(api, info, &count_);
  if (constants == Constants::kReadByEachRun) return;
  for_each_input([&](size_t index, auto member) {
    const OrtValue* const value = constant_input(api, info, index);
    if (value != nullptr) constants_.*member = view_of(api, value);
  });
}

ConvInputs ConvReader::read(const OrtKernelContext* context) const {
  ConvInputs inputs = constants_;
  for_each_input([&](size_t index, auto member) {
    if (inputs.*member) return;
    const OrtValue* value = nullptr;
    invoke<abi::KernelContextGetInput>(api_, context, index, &value);
    if (value != nullptr) inputs.*member = view_of(api_, value);
  });
  return inputs;
}

Numbers output_shape_of(const TensorView& tensor) {
  const Numbers dims = tensor.dims;
  if (dims.count != 1) fail("input output_shape has shape ", to_string(dims.copy()), "; allowed: rank 1.");
  return {static_cast<const int64_t*>(tensor.data), static_cast<size_t>(dims.data[0])};
}

SizesView sizes_of(const ConvInputs& inputs, bool constant_weights) {
  using Any = std::optional<Numbers>;
  const auto dims = [](const std::optional<TensorView>& tensor) { return tensor ? Any(tensor->dims) : std::nullopt; };
  return {inputs.x->dims, constant_weights ? std::nullopt : dims(inputs.w), dims(inputs.b), dims(inputs.residual),
          inputs.output_shape ? Any(output_shape_of(*inputs.output_shape)) : std::nullopt};
}

Sizes copy_of(const SizesView& sizes) {
  const auto copy = [](const std::optional<Numbers>& list) {
    return list ? std::optional<Shape>(list->copy()) : std::nullopt;
  };
  return {sizes.x.copy(), copy(sizes.w), copy(sizes.b), copy(sizes.residual), copy(sizes.output_shape)};
}

std::optional<Sizes> known_sizes(const OrtApi* api, const OrtKernelInfo* info, const ConvAttributes& attributes,
                                 bool constant_weights) {
  const ConvIndices at(attributes.op);
  Sizes sizes;
  const auto x = known_shape(api, info, at.x);
  if (!x) return std::nullopt;
  sizes.x = *x;
  if (!constant_weights) {
    sizes.w = known_shape(api, info, at.w);
    if (!sizes.w) return std::nullopt;
  }
  if (attributes.op == ConvOp::kConvTransposeToShape) {
    const OrtValue* const output_shape = constant_input(api, info, at.output_shape);
    if (output_shape == nullptr) return std::nullopt;
    sizes.output_shape = output_shape_of(view_of(api, output_shape)).copy();
  }
  if (attributes.op == ConvOp::kConvTransposeAdd) {
    sizes.residual = known_shape(api, info, at.residual);
    if (!sizes.residual) return std::nullopt;
  }
  try {
    sizes.b = known_shape(api, info, at.b);
    if (!sizes.b) return std::nullopt;
  } catch (const Error&) {
    // The node has no B.
  }
  return sizes;
}

ConvProblem problem_of(const ConvAttributes& attributes, const ConvProblem* weights, const Sizes& sizes) {
  const auto pointer = [](const std::optional<Shape>& list) { return list ? &*list : nullptr; };
  ConvProblem problem = weights != nullptr ? *weights : weight_problem(attributes, *sizes.w);
  complete_problem(attributes, sizes.x, pointer(sizes.b), pointer(sizes.output_shape), &problem);
  if (sizes.residual) check_residual(attributes, problem, *sizes.residual);
  return problem;
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

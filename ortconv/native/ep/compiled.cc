#include "ep/compiled.h"

#include <utility>

#include "base/error.h"
#include "ort/quantized_convolution/cpu.h"

namespace ortconv::ep {
namespace {

// A convolution and the constants that it reads.
class OwningKernel : public Kernel {
 public:
  OwningKernel(const OrtApi* api, const std::string& subject) : Kernel(api, subject) {}
  void compute(OrtKernelContext* context) const override { kernel->compute(context); }

  OwnTensors tensors;
  std::unique_ptr<Kernel> kernel;
};

std::string subject_of(const Node& node) { return node.op_type() + " '" + node.name() + "'"; }

// Which input of a fused node a value is.
size_t index_of(const Value& value, const std::vector<Value>& inputs, const std::string& subject) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i] == value) return i;
  }
  fail(subject, ": ", value.name(), " is not an input of the fused node.");
}

ConvOptions options_of(const Settings& settings, const std::string& subject) {
  return {settings.implementation, settings.choices, settings.tuning, subject};
}

}  // namespace

std::unique_ptr<Kernel> make_standard_conv(const Session& session, const std::string& subject, DataType dtype,
                                           const ConvTranspose& conv, const ConvIndices& at, ConvInputs constants,
                                           std::optional<Sizes> sizes) {
  auto owner = std::make_unique<OwningKernel>(session.api, subject);
  if (const Shape& shape = conv.output_shape; !shape.empty()) {
    const auto rank = static_cast<int64_t>(shape.size());
    constants.output_shape = owner->tensors.add({rank}, shape.size() * sizeof(int64_t), shape.data());
    if (sizes) sizes->output_shape = shape;
  }
  owner->kernel = make_conv_kernel(session.api, subject,
                                   {dtype, conv.attributes, ConvReader(session.api, at, std::move(constants)),
                                    std::move(sizes), options_of(session.settings, subject)});
  return owner;
}

std::unique_ptr<Kernel> make_group_kernel(const Session& session, const Group& group, const Node& fused) {
  const std::string subject = subject_of(group.node);
  auto owner = std::make_unique<OwningKernel>(session.api, subject);
  const std::vector<Value> inputs = fused.inputs();
  const auto index = [&](const Value& value, bool is_constant) {
    return !value || is_constant ? ConvIndices::kNone : index_of(value, inputs, subject);
  };
  const ConvInputs constants = constants_of(group, &owner->tensors);
  ConvIndices at;
  at.x = index(group.x, constants.x.has_value());
  at.w = index(group.w, constants.w.has_value());
  at.residual = index(group.residual, constants.residual.has_value());
  at.b = group.constant ? ConvIndices::kNone : index(group.bias, constants.b.has_value());
  std::optional<Sizes> sizes;
  if (constants.w) sizes = sizes_of(group);
  owner->kernel = make_standard_conv(session, subject, group.dtype, group.conv, at, constants, std::move(sizes));
  return owner;
}

std::unique_ptr<Kernel> make_integer_kernel(const Session& session, const IntegerLayer& layer, const Node& fused) {
  const std::string subject = subject_of(layer.node);
  auto owner = std::make_unique<OwningKernel>(session.api, subject);
  QuantizedReader reader(session.api, index_of(layer.x, fused.inputs(), subject), constants_of(layer, &owner->tensors));
  owner->kernel = make_quantized_kernel(session.api, subject,
                                        {layer.op, layer.of_x.type, layer.of_w.type, layer.of_y.type, layer.attributes,
                                         std::move(reader), options_of(session.settings, subject)});
  return owner;
}

}  // namespace ortconv::ep

#include "ep/compiled.h"

#include <utility>

#include "base/error.h"

namespace ortconv::ep {
namespace {

// A convolution and the constants that it reads.
class OwningKernel : public Kernel {
 public:
  OwningKernel(const OrtApi* api, const std::string& subject) : Kernel(api, subject) {}
  void compute(OrtKernelContext* context) const override { kernel->compute(context); }

  Shape output_shape;
  std::unique_ptr<Constants> constants;
  std::unique_ptr<Kernel> kernel;
};

}  // namespace

std::unique_ptr<Kernel> make_standard_conv(const Session& session, const std::string& subject, DataType dtype,
                                           const ConvTranspose& conv, const ConvIndices& at, ConvInputs constants,
                                           std::optional<Sizes> sizes) {
  auto owner = std::make_unique<OwningKernel>(session.api, subject);
  if (!conv.output_shape.empty()) {
    // The elements of a tensor of one axis, and its size behind them.
    owner->output_shape = conv.output_shape;
    owner->output_shape.push_back(static_cast<int64_t>(conv.output_shape.size()));
    constants.output_shape = TensorView{owner->output_shape.data(), {&owner->output_shape.back(), 1}};
    if (sizes) sizes->output_shape = conv.output_shape;
  }
  const Settings& settings = session.settings;
  owner->kernel = make_conv_kernel(session.api, subject,
                                   {dtype,
                                    conv.attributes,
                                    ConvReader(session.api, at, std::move(constants)),
                                    std::move(sizes),
                                    {settings.implementation, settings.choices, settings.tuning, subject}});
  return owner;
}

std::unique_ptr<Kernel> make_group_kernel(const Session& session, const Group& group, const Node& fused) {
  const std::string subject = group.node.op_type() + " '" + group.node.name() + "'";
  auto owner = std::make_unique<OwningKernel>(session.api, subject);
  owner->constants = std::make_unique<Constants>(group);
  const std::vector<Value> inputs = fused.inputs();
  const auto index_of = [&](const Value& value, bool is_constant) {
    if (!value || is_constant) return ConvIndices::kNone;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i] == value) return i;
    }
    fail(subject, ": ", value.name(), " is not an input of the fused node.");
  };
  const ConvInputs& constants = owner->constants->inputs();
  ConvIndices at;
  at.x = index_of(group.x, constants.x.has_value());
  at.w = index_of(group.w, constants.w.has_value());
  at.residual = index_of(group.residual, constants.residual.has_value());
  at.b = group.constant ? ConvIndices::kNone : index_of(group.bias, constants.b.has_value());
  std::optional<Sizes> sizes;
  if (constants.w) sizes = sizes_of(group);
  owner->kernel = make_standard_conv(session, subject, group.dtype, group.conv, at, constants, std::move(sizes));
  return owner;
}

}  // namespace ortconv::ep

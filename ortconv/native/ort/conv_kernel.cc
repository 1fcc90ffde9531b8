#include "ort/conv_kernel.h"

#include <utility>

#include "ops/parallel.h"
#include "ort/attributes.h"
#include "ort/boundary.h"
#include "ort/tensors.h"

namespace ortconv {
namespace {

// The inputs of a run; null where the node has none.
struct Inputs {
  const OrtValue* x;
  const OrtValue* w;
  const OrtValue* output_shape;
  const OrtValue* b;

  Inputs(const OrtApi* api, const OrtKernelContext* context, ConvOp op) {
    size_t count = 0;
    invoke<abi::KernelContextGetInputCount>(api, context, &count);
    const auto input = [&](size_t index) {
      const OrtValue* value = nullptr;
      if (index < count) invoke<abi::KernelContextGetInput>(api, context, index, &value);
      return value;
    };
    const bool to_shape = op == ConvOp::kConvTransposeToShape;
    x = input(0);
    w = input(1);
    output_shape = to_shape ? input(2) : nullptr;
    b = input(to_shape ? 3 : 2);
  }
};

std::vector<int64_t> values_of(const OrtApi* api, const OrtValue* tensor) {
  const Shape shape = shape_of(api, tensor);
  if (shape.size() != 1) fail("input output_shape has shape ", to_string(shape), "; allowed: rank 1.");
  const auto* values = static_cast<const int64_t*>(data_of(api, tensor));
  return std::vector<int64_t>(values, values + shape[0]);
}

}  // namespace

ConvKernel::ConvKernel(const OrtApi* api, const OrtKernelInfo* info, ConvOp op, DataType dtype, std::string subject)
    : api_(api),
      subject_(std::move(subject)),
      dtype_(dtype),
      attributes_(read_attributes(op, KernelAttributes(api, info))) {
  check_attributes(attributes_, dtype_);
  int is_constant = 0;
  const OrtValue* w = nullptr;
  invoke<abi::KernelInfoGetConstantInput>(api, info, size_t{1}, &is_constant, &w);
  if (is_constant == 0) return;
  weight_problem_ = weight_problem(attributes_, shape_of(api, w));
  convolution_.emplace(dtype_, direction(), weight_problem_, data_of(api, w), Weights::kConstant, ArchFlags::host());
}

kernels::Op ConvKernel::direction() const {
  return attributes_.transposed() ? kernels::Op::kConvTranspose : kernels::Op::kConv;
}

void ConvKernel::compute(OrtKernelContext* context) const {
  const Inputs in(api_, context, attributes_.op);

  ConvProblem problem = convolution_ ? weight_problem_ : weight_problem(attributes_, shape_of(api_, in.w));
  std::optional<Shape> bias;
  if (in.b != nullptr) bias = shape_of(api_, in.b);
  std::optional<std::vector<int64_t>> output_shape;
  if (in.output_shape != nullptr) output_shape = values_of(api_, in.output_shape);
  complete_problem(attributes_, shape_of(api_, in.x), bias ? &*bias : nullptr, output_shape ? &*output_shape : nullptr,
                   &problem);

  const Shape dims = output_dims(attributes_, problem);
  OrtValue* y = nullptr;
  invoke<abi::KernelContextGetOutput>(api_, context, size_t{0}, dims.data(), dims.size(), &y);

  std::optional<Convolution> for_this_run;
  const void* w = data_of(api_, in.w);
  if (!convolution_) {
    for_this_run.emplace(dtype_, direction(), problem, w, Weights::kOneRun, ArchFlags::host());
  }
  const Convolution& convolution = convolution_ ? *convolution_ : *for_this_run;

  SessionThreads threads(api_, context);
  const Parallel parallel = is_small(direction(), problem) ? serial() : threads.parallel();
  const Scratch scratch(api_, context, y, convolution.scratch_bytes(problem, w, parallel.threads));
  convolution.run(problem, data_of(api_, in.x), w, in.b != nullptr ? data_of(api_, in.b) : nullptr, data_of(api_, y),
                  scratch.data(), parallel);
}

}  // namespace ortconv

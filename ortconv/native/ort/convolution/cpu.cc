#include <optional>

#include "base/parallel.h"
#include "ops/convolution.h"
#include "ops/pool_size.h"
#include "ort/abi/attributes.h"
#include "ort/abi/boundary.h"
#include "ort/abi/tensors.h"
#include "ort/convolution/inputs.h"
#include "ort/convolution/op.h"

namespace ortconv {
namespace {

class ConvKernel : public Kernel {
 public:
  explicit ConvKernel(const ConvCreation& creation);
  void compute(OrtKernelContext* context) const override;

 private:
  DataType dtype_;
  ConvAttributes attributes_;

  mutable PoolSize pool_size_;

  // For constant weights.
  ConvProblem weight_problem_;
  std::optional<Convolution> convolution_;
};

ConvKernel::ConvKernel(const ConvCreation& creation)
    : Kernel(creation.api, creation.subject),
      dtype_(creation.dtype),
      attributes_(read_attributes(creation.op, KernelAttributes(creation.api, creation.info))) {
  check_attributes(attributes_, dtype_);
  const OrtValue* const w = constant_input(api(), creation.info, ConvIndices(creation.op).w);
  if (w == nullptr) return;
  weight_problem_ = weight_problem(attributes_, shape_of(api(), w));
  convolution_.emplace(dtype_, direction_of(attributes_.op), weight_problem_, data_of(api(), w), Weights::kConstant,
                       ArchFlags::host());
}

void ConvKernel::compute(OrtKernelContext* context) const {
  const ConvInputs in(api(), context, attributes_.op);

  ConvProblem problem = convolution_ ? weight_problem_ : weight_problem(attributes_, shape_of(api(), in.w));
  std::optional<Shape> bias;
  if (in.b != nullptr) bias = shape_of(api(), in.b);
  std::optional<std::vector<int64_t>> output_shape;
  if (in.output_shape != nullptr) output_shape = output_shape_of(api(), in.output_shape);
  complete_problem(attributes_, shape_of(api(), in.x), bias ? &*bias : nullptr, output_shape ? &*output_shape : nullptr,
                   &problem);
  if (in.residual != nullptr) check_residual(attributes_, problem, shape_of(api(), in.residual));

  const Shape dims = output_dims(attributes_, problem);
  OrtValue* const y = make_output(api(), context, dims);

  std::optional<Convolution> for_this_run;
  const void* w = data_of(api(), in.w);
  if (!convolution_) {
    for_this_run.emplace(dtype_, direction_of(attributes_.op), problem, w, Weights::kOneRun, ArchFlags::host());
  }
  const Convolution& convolution = convolution_ ? *convolution_ : *for_this_run;

  SessionThreads threads(api(), context);
  Parallel parallel = is_small(direction_of(attributes_.op), problem) ? serial() : threads.parallel();
  parallel.threads = pool_size_.threads(parallel);
  const Scratch scratch(api(), context, y, convolution.scratch_bytes(problem, w, parallel.threads));
  const auto optional = [this](const OrtValue* tensor) { return tensor == nullptr ? nullptr : data_of(api(), tensor); };
  convolution.run(problem, data_of(api(), in.x), w, optional(in.b), optional(in.residual), data_of(api(), y),
                  scratch.data(), parallel);
}

}  // namespace

std::unique_ptr<Kernel> make_conv_kernel(const ConvCreation& creation) {
  return std::make_unique<ConvKernel>(creation);
}

}  // namespace ortconv

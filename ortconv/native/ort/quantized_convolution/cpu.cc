#include <memory>
#include <optional>

#include "base/arch.h"
#include "base/parallel.h"
#include "base/recently_used.h"
#include "ops/pool_size.h"
#include "ops/quantized_convolution.h"
#include "ort/abi/boundary.h"
#include "ort/abi/tensors.h"
#include "ort/conv_integer_to_float/inputs.h"
#include "ort/quantized_convolution/inputs.h"
#include "ort/quantized_convolution/op.h"

namespace ortconv {
namespace {

using kernels::Bytes;
using kernels::IntegerConvFilter;

class QuantizedKernel : public Kernel {
 public:
  explicit QuantizedKernel(const QuantizedCreation& creation);
  void compute(OrtKernelContext* context) const override;

 private:
  // What depends on W and its zero point.
  struct Weighted {
    ConvProblem problem;
    std::optional<QuantizedConvolution> convolution;
  };

  void make(const OrtValue* w, const OrtValue* zero, Weighted* weighted) const;
  kernels::IntegerTransposedOperands operands_of(const QuantizedInputs& in, int64_t channels) const;
  const uint8_t* bytes(const OrtValue* tensor) const { return static_cast<const uint8_t*>(data_of(api(), tensor)); }
  float number(const OrtValue* tensor) const { return *static_cast<const float*>(data_of(api(), tensor)); }

  QuantizedOp op_;
  bool x_is_signed_, w_is_signed_, y_is_signed_;
  ConvAttributes attributes_;
  ConvOptions options_;
  Weighted constant_;

  static constexpr size_t kChoices = 4;
  mutable RecentlyUsed<Shape, QuantizedChoice> choices_{kChoices};  // of constant weights, by the shape of X
  mutable PoolSize pool_size_;
};

QuantizedKernel::QuantizedKernel(const QuantizedCreation& creation)
    : Kernel(creation.api, creation.subject),
      op_(creation.op),
      x_is_signed_(creation.x == DataType::kInt8),
      w_is_signed_(creation.w == DataType::kInt8),
      y_is_signed_(creation.y == DataType::kInt8),
      attributes_(quantized_attributes(KernelAttributes(creation.api, creation.info))),
      options_{creation.settings.implementation, creation.settings.choices, "", creation.subject} {
  attributes_.activation = parse_activation(KernelAttributes(creation.api, creation.info).numbers("activation"));
  const OrtValue* const w = constant_input(api(), creation.info, QuantizedInputs::kW);
  const OrtValue* const zero = constant_input(api(), creation.info, QuantizedInputs::kWZero);
  if (w == nullptr || zero == nullptr) return;
  check_quantization("w_zero_point", shape_of(api(), zero), 1);
  make(w, zero, &constant_);
}

void QuantizedKernel::make(const OrtValue* w, const OrtValue* zero, Weighted* weighted) const {
  weighted->problem = weight_problem(attributes_, shape_of(api(), w));
  for (int i = 0; i < weighted->problem.ndims; ++i) weighted->problem.pad[i] = attributes_.pads[i];
  weighted->convolution.emplace(weighted->problem, IntegerConvFilter{{bytes(w), w_is_signed_}, bytes(zero), 1},
                                ArchFlags::host(), options_);
}

// Checks the shapes of scales and zero points.
kernels::IntegerTransposedOperands QuantizedKernel::operands_of(const QuantizedInputs& in, int64_t channels) const {
  const auto integer = [&](size_t index, bool is_signed) { return Bytes{bytes(in[index]), is_signed}[0]; };
  kernels::IntegerTransposedOperands operands{};
  operands.w_scale_count = check_quantized_numbers(api(), in, op_, channels);
  operands.x = {bytes(in[QuantizedInputs::kX]), x_is_signed_};
  operands.x_zero = integer(QuantizedInputs::kXZero, x_is_signed_);
  operands.x_scale = number(in[QuantizedInputs::kXScale]);
  operands.w_scales = static_cast<const float*>(data_of(api(), in[QuantizedInputs::kWScale]));
  operands.bias = static_cast<const float*>(data_of(api(), in[QuantizedInputs::bias(op_)]));
  operands.type = kernels::ResultType::kFloat;
  if (op_ == QuantizedOp::kToFloat) return operands;
  operands.type = y_is_signed_ ? kernels::ResultType::kInt8 : kernels::ResultType::kUint8;
  operands.y_scale = number(in[QuantizedInputs::kYScale]);
  operands.y_zero = integer(QuantizedInputs::kYZero, y_is_signed_);
  if (op_ == QuantizedOp::kQuantized) return operands;
  operands.residual = bytes(in[QuantizedInputs::kR]);
  operands.residual_scale = number(in[QuantizedInputs::kRScale]);
  operands.residual_zero = integer(QuantizedInputs::kRZero, y_is_signed_);
  return operands;
}

void QuantizedKernel::compute(OrtKernelContext* context) const {
  const QuantizedInputs in(api(), context, op_);
  const Shape x = shape_of(api(), in[QuantizedInputs::kX]);
  Weighted of_run;
  if (!constant_.convolution) {
    check_quantization("w_zero_point", shape_of(api(), in[QuantizedInputs::kWZero]), 1);
    make(in[QuantizedInputs::kW], in[QuantizedInputs::kWZero], &of_run);
  }
  const Weighted& weighted = constant_.convolution ? constant_ : of_run;
  ConvProblem problem = weighted.problem;
  const Shape bias = shape_of(api(), in[QuantizedInputs::bias(op_)]);
  complete_problem(attributes_, x, &bias, nullptr, &problem);
  if (op_ == QuantizedOp::kQuantizedAdd) check_residual(attributes_, problem, shape_of(api(), in[QuantizedInputs::kR]));
  kernels::IntegerTransposedOperands operands = operands_of(in, problem.oc);

  std::shared_ptr<const QuantizedChoice> choice = choices_.find(x);
  if (choice == nullptr || !constant_.convolution) {
    choice = weighted.convolution->choose(problem);
    if (constant_.convolution) choices_.insert(x, choice);
  }
  OrtValue* const y = make_output(api(), context, output_dims(attributes_, problem));
  if (choice->is_empty) return;
  operands.y = data_of(api(), y);
  SessionThreads threads(api(), context);
  Parallel parallel = is_small(kernels::Op::kConvTranspose, problem) ? serial() : threads.parallel();
  parallel.threads = pool_size_.threads(parallel);
  const Scratch scratch(api(), context, y, weighted.convolution->scratch_bytes(*choice, parallel.threads));
  weighted.convolution->run(*choice, operands, scratch.data(), parallel);
}

}  // namespace

std::unique_ptr<Kernel> make_quantized_kernel(const QuantizedCreation& creation) {
  return std::make_unique<QuantizedKernel>(creation);
}

}  // namespace ortconv

#include "ort/quantized_convolution/cpu.h"

#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/arch.h"
#include "base/parallel.h"
#include "base/recently_used.h"
#include "ops/pool_size.h"
#include "ops/quantized_convolution.h"
#include "ort/abi/attributes.h"
#include "ort/abi/tensors.h"
#include "ort/conv_integer_to_float/inputs.h"
#include "ort/quantized_convolution/op.h"

namespace ortconv {
namespace {

using kernels::Bytes;
using kernels::IntegerConvFilter;

class QuantizedKernel : public Kernel {
 public:
  QuantizedKernel(const OrtApi* api, const std::string& subject, CpuQuantizedConv conv);
  void compute(OrtKernelContext* context) const override;

 private:
  // What depends on W and its zero point.
  struct Weighted {
    ConvProblem problem;
    std::optional<QuantizedConvolution> convolution;
  };

  void make(const TensorView& w, const TensorView& zero, Weighted* weighted) const;
  kernels::IntegerResultOperands operands_of(const QuantizedInputs& in, const ConvProblem& problem) const;
  void find_equal_biases(const TensorView& biases);
  static const uint8_t* bytes(const TensorView& tensor) { return static_cast<const uint8_t*>(tensor.data); }
  static const float* floats(const TensorView& tensor) { return static_cast<const float*>(tensor.data); }

  QuantizedOp op_;
  bool x_is_signed_, w_is_signed_, y_is_signed_;
  ConvAttributes attributes_;
  QuantizedReader reader_;
  ConvOptions options_;
  Weighted constant_;
  std::vector<int32_t> equal_biases_;  // of constant ones for each element

  static constexpr size_t kChoices = 4;
  mutable RecentlyUsed<Shape, QuantizedChoice> choices_{kChoices};  // of constant weights, by the shape of X
  mutable PoolSize pool_size_;
};

QuantizedKernel::QuantizedKernel(const OrtApi* api, const std::string& subject, CpuQuantizedConv conv)
    : Kernel(api, subject),
      op_(conv.op),
      x_is_signed_(conv.x == DataType::kInt8),
      w_is_signed_(conv.w == DataType::kInt8),
      y_is_signed_(conv.y == DataType::kInt8),
      attributes_(std::move(conv.attributes)),
      reader_(std::move(conv.reader)),
      options_(std::move(conv.options)) {
  const auto& w = reader_.constants().values[QuantizedInputs::kW];
  const auto& zero = reader_.constants().values[QuantizedInputs::kWZero];
  if (w && zero) make(*w, *zero, &constant_);
  const auto& bias = reader_.constants().values[QuantizedInputs::bias(op_)];
  if (op_ == QuantizedOp::kAffine && bias) find_equal_biases(*bias);
}

void QuantizedKernel::find_equal_biases(const TensorView& biases) {
  const Shape dims = biases.dims.copy();
  int64_t positions = 1;
  for (size_t axis = 1; axis < dims.size(); ++axis) positions *= dims[axis];
  if (positions > std::numeric_limits<int32_t>::max()) return;
  equal_biases_ = kernels::find_equal_biases(floats(biases), dims.empty() ? 0 : dims[0], positions);
}

void QuantizedKernel::make(const TensorView& w, const TensorView& zero, Weighted* weighted) const {
  check_quantization("w_zero_point", zero.dims.copy(), 1);
  weighted->problem = weight_problem(attributes_, w.dims.copy());
  for (int i = 0; i < weighted->problem.ndims; ++i) weighted->problem.pad[i] = attributes_.pads[i];
  weighted->convolution.emplace(direction_of(attributes_.op), weighted->problem,
                                IntegerConvFilter{{bytes(w), w_is_signed_}, bytes(zero), 1}, ArchFlags::host(),
                                options_, op_ == QuantizedOp::kToFloat);
}

// Checks the shapes of scales and zero points.
kernels::IntegerResultOperands QuantizedKernel::operands_of(const QuantizedInputs& in,
                                                            const ConvProblem& problem) const {
  const auto integer = [&](size_t index, bool is_signed) { return Bytes{bytes(in[index]), is_signed}[0]; };
  kernels::IntegerResultOperands operands{};
  operands.w_scale_count = check_quantized_numbers(in, op_, problem.oc);
  operands.x = {bytes(in[QuantizedInputs::kX]), x_is_signed_};
  operands.x_zero = integer(QuantizedInputs::kXZero, x_is_signed_);
  operands.x_scale = *floats(in[QuantizedInputs::kXScale]);
  operands.w_scales = floats(in[QuantizedInputs::kWScale]);
  operands.bias = floats(in[QuantizedInputs::bias(op_)]);
  operands.type = kernels::ResultType::kFloat;
  if (op_ == QuantizedOp::kToFloat) return operands;
  operands.type = y_is_signed_ ? kernels::ResultType::kInt8 : kernels::ResultType::kUint8;
  operands.y_scale = *floats(in[QuantizedInputs::kYScale]);
  operands.y_zero = integer(QuantizedInputs::kYZero, y_is_signed_);
  if (op_ == QuantizedOp::kAffine) {
    operands.factors = floats(in[QuantizedInputs::kFactor]);
    operands.addends = floats(in[QuantizedInputs::kAddend]);
    if (check_biases(in[QuantizedInputs::bias(op_)].dims.copy(), problem)) {
      std::swap(operands.biases, operands.bias);
      if (!equal_biases_.empty()) operands.equal_biases = equal_biases_.data();
    }
  }
  if (op_ != QuantizedOp::kQuantizedAdd) return operands;
  operands.residual = bytes(in[QuantizedInputs::kR]);
  operands.residual_scale = *floats(in[QuantizedInputs::kRScale]);
  operands.residual_zero = integer(QuantizedInputs::kRZero, y_is_signed_);
  return operands;
}

void QuantizedKernel::compute(OrtKernelContext* context) const {
  const QuantizedInputs in = reader_.read(context);
  const Shape x = in[QuantizedInputs::kX].dims.copy();
  Weighted of_run;
  if (!constant_.convolution) make(in[QuantizedInputs::kW], in[QuantizedInputs::kWZero], &of_run);
  const Weighted& weighted = constant_.convolution ? constant_ : of_run;
  ConvProblem problem = weighted.problem;
  const Shape bias = in[QuantizedInputs::bias(op_)].dims.copy();
  complete_problem(attributes_, x, op_ == QuantizedOp::kAffine ? nullptr : &bias, nullptr, &problem);
  if (op_ == QuantizedOp::kQuantizedAdd) check_residual(attributes_, problem, in[QuantizedInputs::kR].dims.copy());
  kernels::IntegerResultOperands operands = operands_of(in, problem);

  std::shared_ptr<const QuantizedChoice> choice = choices_.find(x);
  if (choice == nullptr || !constant_.convolution) {
    choice = weighted.convolution->choose(problem);
    if (constant_.convolution) choices_.insert(x, choice);
  }
  OrtValue* const y = make_output(api(), context, output_dims(attributes_, problem));
  if (choice->is_empty) return;
  operands.y = data_of(api(), y);
  SessionThreads threads(api(), context);
  Parallel parallel = is_small(direction_of(attributes_.op), problem) ? serial() : threads.parallel();
  parallel.threads = pool_size_.threads(parallel);
  const Scratch scratch(api(), context, y, weighted.convolution->scratch_bytes(*choice, parallel.threads));
  weighted.convolution->run(*choice, operands, scratch.data(), parallel);
}

}  // namespace

std::unique_ptr<Kernel> make_quantized_kernel(const OrtApi* api, const std::string& subject, CpuQuantizedConv conv) {
  return std::make_unique<QuantizedKernel>(api, subject, std::move(conv));
}

std::unique_ptr<Kernel> make_quantized_kernel(const QuantizedCreation& creation) {
  const KernelAttributes source(creation.api, creation.info);
  ConvAttributes attributes = quantized_attributes(source, creation.op);
  attributes.activation = quantized_activation(source, creation.op);
  const Settings& settings = creation.settings;
  return make_quantized_kernel(
      creation.api, creation.subject,
      {creation.op,
       creation.x,
       creation.w,
       creation.y,
       std::move(attributes),
       QuantizedReader(creation.api, creation.info, creation.op, QuantizedReader::Constants::kReadOnce),
       {settings.implementation, settings.choices, "", creation.subject}});
}

}  // namespace ortconv

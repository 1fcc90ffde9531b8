#include <algorithm>
#include <optional>
#include <utility>

#include "base/arch.h"
#include "base/parallel.h"
#include "base/recently_used.h"
#include "kernels/integer_conv/integer_conv.h"
#include "ops/convolution.h"
#include "ops/pool_size.h"
#include "ort/abi/boundary.h"
#include "ort/abi/tensors.h"
#include "ort/conv_integer_to_float/inputs.h"
#include "ort/conv_integer_to_float/op.h"

namespace ortconv {
namespace {

using kernels::IntegerConvFilter;
using kernels::IntegerConvWeights;
using Layout = std::optional<kernels::IntegerConvLayout>;  // none: the source is read as it is

class IntegerConvKernel : public Kernel {
 public:
  explicit IntegerConvKernel(const IntegerConvCreation& creation);
  void compute(OrtKernelContext* context) const override;

 private:
  IntegerConvFilter filter_of(const ConvProblem& problem, const OrtValue* w, const OrtValue* zeros) const;
  std::shared_ptr<const Layout> layout_of(const Shape& x, const Shape& w, const ConvProblem& problem) const;
  kernels::IntegerConvOperands operands_of(const IntegerConvInputs& in, const ConvProblem& problem) const;

  bool x_is_signed_, w_is_signed_;
  ConvAttributes attributes_;
  const kernels::IntegerConvKernel* kernel_;  // of the weights

  // For constant weights.
  ConvProblem weight_problem_;
  std::optional<IntegerConvWeights> weights_;
  bool has_zeros_ = false;  // in which their constant zero points are

  static constexpr size_t kLayouts = 2;
  mutable RecentlyUsed<Shape, Layout> layouts_{kLayouts};  // by the shapes of X and W, one after the other
  mutable PoolSize pool_size_;
};

IntegerConvKernel::IntegerConvKernel(const IntegerConvCreation& creation)
    : Kernel(creation.api, creation.subject),
      x_is_signed_(creation.x == DataType::kInt8),
      w_is_signed_(creation.w == DataType::kInt8),
      attributes_(integer_conv_attributes(KernelAttributes(creation.api, creation.info))),
      kernel_(&kernels::get_integer_conv_kernel(ArchFlags::host())) {
  const OrtValue* const w = constant_input(api(), creation.info, IntegerConvInputs::kW);
  if (w == nullptr) return;
  weight_problem_ = weight_problem(attributes_, shape_of(api(), w));
  const OrtValue* const zeros = constant_input(api(), creation.info, IntegerConvInputs::kWZero);
  has_zeros_ = zeros != nullptr;
  weights_.emplace(
      IntegerConvWeights::for_fastest(ArchFlags::host(), weight_problem_, filter_of(weight_problem_, w, zeros)));
  kernel_ = &weights_->kernel();
}

IntegerConvFilter IntegerConvKernel::filter_of(const ConvProblem& problem, const OrtValue* w,
                                               const OrtValue* zeros) const {
  const kernels::Bytes bytes{static_cast<const uint8_t*>(data_of(api(), w)), w_is_signed_};
  if (zeros == nullptr) return {bytes, nullptr, 0};
  const int64_t count = check_quantization("w_zero_point", shape_of(api(), zeros), problem.oc);
  return {bytes, static_cast<const uint8_t*>(data_of(api(), zeros)), count};
}

std::shared_ptr<const Layout> IntegerConvKernel::layout_of(const Shape& x, const Shape& w,
                                                           const ConvProblem& problem) const {
  Shape key = x;
  key.insert(key.end(), w.begin(), w.end());
  std::shared_ptr<const Layout> layout = layouts_.find(key);
  if (layout != nullptr) return layout;
  layout = std::make_shared<const Layout>(kernels::IntegerConvLayout::make(problem, *kernel_));
  layouts_.insert(std::move(key), layout);
  return layout;
}

// Checks their shapes, but for those of X, W and B.
kernels::IntegerConvOperands IntegerConvKernel::operands_of(const IntegerConvInputs& in,
                                                            const ConvProblem& problem) const {
  const auto floats = [&](size_t index) { return static_cast<const float*>(data_of(api(), in[index])); };
  const int64_t scales = check_quantizations(api(), in, problem.oc);
  int32_t x_zero = 0;
  if (in[IntegerConvInputs::kXZero] != nullptr) {
    x_zero =
        kernels::Bytes{static_cast<const uint8_t*>(data_of(api(), in[IntegerConvInputs::kXZero])), x_is_signed_}[0];
  }
  return {{static_cast<const uint8_t*>(data_of(api(), in[IntegerConvInputs::kX])), x_is_signed_},
          x_zero,
          *floats(IntegerConvInputs::kXScale),
          floats(IntegerConvInputs::kWScale),
          scales,
          in[IntegerConvInputs::kB] == nullptr ? nullptr : floats(IntegerConvInputs::kB),
          nullptr};
}

void IntegerConvKernel::compute(OrtKernelContext* context) const {
  const IntegerConvInputs in(api(), context);
  const OrtValue *const w = in[IntegerConvInputs::kW], *const zeros = in[IntegerConvInputs::kWZero];
  const Shape x_shape = shape_of(api(), in[IntegerConvInputs::kX]), w_shape = shape_of(api(), w);
  ConvProblem problem = weights_ ? weight_problem_ : weight_problem(attributes_, w_shape);
  std::optional<Shape> bias;
  if (in[IntegerConvInputs::kB] != nullptr) bias = shape_of(api(), in[IntegerConvInputs::kB]);
  complete_problem(attributes_, x_shape, bias ? &*bias : nullptr, nullptr, &problem);
  kernels::IntegerConvOperands operands = operands_of(in, problem);

  const Shape dims = output_dims(attributes_, problem);
  OrtValue* const y = make_output(api(), context, dims);
  if (std::find(dims.begin(), dims.end(), 0) != dims.end()) return;
  operands.y = static_cast<float*>(data_of(api(), y));

  SessionThreads threads(api(), context);
  Parallel parallel = is_small(kernels::Op::kConv, problem) ? serial() : threads.parallel();
  parallel.threads = pool_size_.threads(parallel);
  const std::shared_ptr<const Layout> layout = layout_of(x_shape, w_shape, problem);
  if (!*layout) {
    kernels::integer_conv_direct(problem, filter_of(problem, w, zeros), operands, parallel);
    return;
  }
  // Zero points of the run change the weights.
  const bool is_packed = weights_ && (zeros != nullptr) == has_zeros_;
  std::optional<IntegerConvWeights> for_this_run;
  if (!is_packed) for_this_run.emplace(*kernel_, problem, filter_of(problem, w, zeros));
  const IntegerConvWeights& weights = is_packed ? *weights_ : *for_this_run;
  const Scratch scratch(api(), context, y,
                        kernels::integer_conv_scratch_bytes(problem, **layout, weights, parallel.threads));
  kernels::integer_conv(problem, **layout, weights, operands, scratch.data(), parallel);
}

}  // namespace

std::unique_ptr<Kernel> make_integer_conv_kernel(const IntegerConvCreation& creation) {
  return std::make_unique<IntegerConvKernel>(creation);
}

}  // namespace ortconv

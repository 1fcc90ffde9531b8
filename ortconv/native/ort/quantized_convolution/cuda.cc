#include <optional>

#include "base/error.h"
#include "base/recently_used.h"
#include "cuda/host/gpu.h"
#include "cuda/host/prepared.h"
#include "cuda/plan/plan.h"
#include "ops/convolution.h"
#include "ort/abi/cuda_run.h"
#include "ort/abi/device_memory.h"
#include "ort/abi/tensors.h"
#include "ort/conv_integer_to_float/inputs.h"
#include "ort/quantized_convolution/inputs.h"
#include "ort/quantized_convolution/op.h"

namespace ortconv {
namespace {

using cuda::Buffer;

// What decides how a run is computed.
struct Key {
  Shape x;
  std::optional<Shape> w;  // where the weights are not constant
  int64_t scales;          // of W
  Shape b;
  std::optional<Shape> residual;

  bool operator==(const Key& other) const {
    return x == other.x && w == other.w && scales == other.scales && b == other.b && residual == other.residual;
  }
};

class CudaQuantizedKernel : public Kernel {
 public:
  explicit CudaQuantizedKernel(const QuantizedCreation& creation);
  void compute(OrtKernelContext* context) const override;

 private:
  void pack(const OrtValue* w, const OrtValue* zero);
  std::optional<Key> known_key(const OrtKernelInfo* info) const;
  ConvProblem weights_of(const std::optional<Shape>& w) const;
  std::shared_ptr<const ReadyRun> ready(const Key& key) const;
  cuda::Addresses addresses_of(const QuantizedInputs& in) const;

  QuantizedOp op_;
  cuda::Elements elements_;
  ConvAttributes attributes_;
  QuantizedReader reader_;
  DeviceAllocator allocator_;
  cuda::Gpu& gpu_;

  // For constant weights with a constant zero point.
  std::optional<ConvProblem> weight_problem_;
  DeviceMemory packed_;

  mutable RecentlyUsed<Key, ReadyRun> ready_runs_{kReadyRuns};
  mutable ScratchMemory scratch_;
};

CudaQuantizedKernel::CudaQuantizedKernel(const QuantizedCreation& creation)
    : Kernel(creation.api, creation.subject),
      op_(creation.op),
      elements_(creation.x, creation.w, creation.y),
      attributes_(quantized_attributes(KernelAttributes(creation.api, creation.info), creation.op)),
      reader_(creation.api, creation.info, creation.op, QuantizedReader::Constants::kReadByEachRun),
      allocator_(creation.api, creation.info),
      gpu_(cuda::Gpu::get(allocator_.ordinal())),
      scratch_(allocator_) {
  attributes_.activation = quantized_activation(KernelAttributes(creation.api, creation.info), creation.op);
  const cuda::Gpu::Current current(gpu_);
  const OrtValue* const w = constant_input(api(), creation.info, QuantizedInputs::kW);
  const OrtValue* const zero = constant_input(api(), creation.info, QuantizedInputs::kWZero);
  if (w != nullptr && zero != nullptr && allocator_.reaches(w) && allocator_.reaches(zero)) pack(w, zero);
  // Sizes that are refused are an error of the run that has them, as on the CPU.
  try {
    if (const auto key = known_key(creation.info)) ready(*key);
  } catch (const Error&) {
  }
}

// Creating a kernel may wait for the GPU; a run never does.
void CudaQuantizedKernel::pack(const OrtValue* w, const OrtValue* zero) {
  weight_problem_ = weight_problem(attributes_, shape_of(api(), w));
  check_quantization("w_zero_point", shape_of(api(), zero), 1);
  const cuda::WeightPlan plan =
      cuda::plan_weights(elements_, direction_of(attributes_.op), *weight_problem_, gpu_.device(), {});
  if (plan.packed_bytes == 0) return;
  packed_ = DeviceMemory(allocator_, plan.packed_bytes);
  cuda::Addresses addresses;
  addresses[Buffer::kW] = data_of(api(), w);
  addresses[Buffer::kZeros] = data_of(api(), zero);
  addresses[Buffer::kPacked] = packed_.data();
  cuda::Prepared(gpu_, plan.launches).run(addresses, nullptr);
  gpu_.driver().check(gpu_.driver().cuStreamSynchronize(nullptr), "cuStreamSynchronize");
}

std::optional<Key> CudaQuantizedKernel::known_key(const OrtKernelInfo* info) const {
  // A constant's shape is known where it is declared as that of one number, too.
  const auto shape_at = [&](size_t index) -> std::optional<Shape> {
    const OrtValue* const constant = constant_input(api(), info, index);
    return constant != nullptr ? shape_of(api(), constant) : known_shape(api(), info, index);
  };
  Key key{};
  const bool adds = op_ == QuantizedOp::kQuantizedAdd;
  const std::optional<Shape> x = shape_at(QuantizedInputs::kX), scales = shape_at(QuantizedInputs::kWScale);
  const std::optional<Shape> b = shape_at(QuantizedInputs::bias(op_));
  if (!weight_problem_) key.w = shape_at(QuantizedInputs::kW);
  if (adds) key.residual = shape_at(QuantizedInputs::kR);
  if (!x || !scales || !b || !(weight_problem_ || key.w) || (adds && !key.residual)) return std::nullopt;
  key.x = *x;
  key.b = *b;
  key.scales = check_quantization("w_scale", *scales, weights_of(key.w).oc);
  return key;
}

ConvProblem CudaQuantizedKernel::weights_of(const std::optional<Shape>& w) const {
  return weight_problem_ ? *weight_problem_ : weight_problem(attributes_, *w);
}

std::shared_ptr<const ReadyRun> CudaQuantizedKernel::ready(const Key& key) const {
  if (auto found = ready_runs_.find(key)) return found;
  cuda::Terms terms;
  terms.affine = op_ == QuantizedOp::kAffine;
  ConvProblem problem = weights_of(key.w);
  complete_problem(attributes_, key.x, terms.affine ? nullptr : &key.b, nullptr, &problem);
  terms.element_bias = terms.affine && check_biases(key.b, problem);
  terms.bias = !terms.element_bias;
  terms.residual = key.residual.has_value();
  if (terms.residual) check_residual(attributes_, problem, *key.residual);
  cuda::Elements elements = elements_;
  elements.channels_have_scales = key.scales > 1;
  const cuda::Plan plan = cuda::plan_run(elements, direction_of(attributes_.op), problem, gpu_.device(), {},
                                         packed_.data() != nullptr, terms);
  auto made = std::make_shared<const ReadyRun>(gpu_, output_dims(attributes_, problem), plan);
  ready_runs_.insert(key, made);
  return made;
}

cuda::Addresses CudaQuantizedKernel::addresses_of(const QuantizedInputs& in) const {
  cuda::Addresses addresses;
  const auto set = [&](Buffer buffer, size_t index) { addresses[buffer] = in[index].data; };
  set(Buffer::kX, QuantizedInputs::kX);
  set(Buffer::kXScale, QuantizedInputs::kXScale);
  set(Buffer::kXZero, QuantizedInputs::kXZero);
  set(Buffer::kW, QuantizedInputs::kW);
  set(Buffer::kScales, QuantizedInputs::kWScale);
  set(Buffer::kZeros, QuantizedInputs::kWZero);
  set(Buffer::kB, QuantizedInputs::bias(op_));
  if (op_ != QuantizedOp::kToFloat) {
    set(Buffer::kYScale, QuantizedInputs::kYScale);
    set(Buffer::kYZero, QuantizedInputs::kYZero);
  }
  if (op_ == QuantizedOp::kQuantizedAdd) {
    set(Buffer::kResidual, QuantizedInputs::kR);
    set(Buffer::kResidualScale, QuantizedInputs::kRScale);
    set(Buffer::kResidualZero, QuantizedInputs::kRZero);
  }
  if (op_ == QuantizedOp::kAffine) {
    set(Buffer::kFactor, QuantizedInputs::kFactor);
    set(Buffer::kAddend, QuantizedInputs::kAddend);
  }
  addresses[Buffer::kPacked] = packed_.data();
  return addresses;
}

void CudaQuantizedKernel::compute(OrtKernelContext* context) const {
  const QuantizedInputs in = reader_.read(context);
  Key key{};
  key.x = in[QuantizedInputs::kX].dims.copy();
  if (!weight_problem_) key.w = in[QuantizedInputs::kW].dims.copy();
  key.scales = check_quantized_numbers(in, op_, weights_of(key.w).oc);
  key.b = in[QuantizedInputs::bias(op_)].dims.copy();
  if (op_ == QuantizedOp::kQuantizedAdd) key.residual = in[QuantizedInputs::kR].dims.copy();
  const cuda::Gpu::Current current(gpu_);
  enqueue(api(), context, *ready(key), addresses_of(in), &scratch_);
}

}  // namespace

std::unique_ptr<Kernel> make_cuda_quantized_kernel(const QuantizedCreation& creation) {
  return std::make_unique<CudaQuantizedKernel>(creation);
}

}  // namespace ortconv

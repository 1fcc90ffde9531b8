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
#include "ort/conv_integer_to_float/op.h"

namespace ortconv {
namespace {

constexpr kernels::Op kOp = kernels::Op::kConv;

// What decides how a run is computed.
struct Key {
  Shape x;
  std::optional<Shape> w;  // where the weights are not constant
  std::optional<Shape> b;
  int64_t scales;  // of W
  bool has_zeros;  // of W

  bool operator==(const Key& other) const {
    return x == other.x && w == other.w && b == other.b && scales == other.scales && has_zeros == other.has_zeros;
  }
};

class CudaIntegerConvKernel : public Kernel {
 public:
  explicit CudaIntegerConvKernel(const IntegerConvCreation& creation);
  void compute(OrtKernelContext* context) const override;

 private:
  void pack(const OrtValue* w, const OrtValue* zeros);
  std::optional<Key> known_key(const OrtKernelInfo* info) const;
  ConvProblem weights_of(const std::optional<Shape>& w) const;
  std::shared_ptr<const ReadyRun> ready(const Key& key) const;

  cuda::Elements elements_;
  ConvAttributes attributes_;
  DeviceAllocator allocator_;
  cuda::Gpu& gpu_;

  // For constant weights.
  std::optional<ConvProblem> weight_problem_;
  bool has_packed_zeros_ = false;  // in which their constant zero points are
  DeviceMemory packed_;

  mutable RecentlyUsed<Key, ReadyRun> ready_runs_{kReadyRuns};
  mutable ScratchMemory scratch_;
};

CudaIntegerConvKernel::CudaIntegerConvKernel(const IntegerConvCreation& creation)
    : Kernel(creation.api, creation.subject),
      elements_(creation.x, creation.w),
      attributes_(integer_conv_attributes(KernelAttributes(creation.api, creation.info))),
      allocator_(creation.api, creation.info),
      gpu_(cuda::Gpu::get(allocator_.ordinal())),
      scratch_(allocator_) {
  const cuda::Gpu::Current current(gpu_);
  const OrtValue* const w = constant_input(api(), creation.info, IntegerConvInputs::kW);
  const OrtValue* const zeros = constant_input(api(), creation.info, IntegerConvInputs::kWZero);
  if (w != nullptr && allocator_.reaches(w) && (zeros == nullptr || allocator_.reaches(zeros))) pack(w, zeros);
  // Sizes that are refused are an error of the run that has them, as on the CPU.
  try {
    if (const auto key = known_key(creation.info)) ready(*key);
  } catch (const Error&) {
  }
}

// Creating a kernel may wait for the GPU; a run never does.
void CudaIntegerConvKernel::pack(const OrtValue* w, const OrtValue* zeros) {
  weight_problem_ = weight_problem(attributes_, shape_of(api(), w));
  has_packed_zeros_ = zeros != nullptr;
  cuda::Elements elements = elements_;
  elements.channels_have_zeros =
      zeros != nullptr && check_quantization("w_zero_point", shape_of(api(), zeros), weight_problem_->oc) > 1;
  const cuda::WeightPlan plan = cuda::plan_weights(elements, kOp, *weight_problem_, gpu_.device(), {});
  if (plan.packed_bytes == 0) return;
  packed_ = DeviceMemory(allocator_, plan.packed_bytes);
  cuda::Addresses addresses;
  addresses[cuda::Buffer::kW] = data_of(api(), w);
  addresses[cuda::Buffer::kZeros] = zeros != nullptr ? data_of(api(), zeros) : nullptr;
  addresses[cuda::Buffer::kPacked] = packed_.data();
  cuda::Prepared(gpu_, plan.launches).run(addresses, nullptr);
  gpu_.driver().check(gpu_.driver().cuStreamSynchronize(nullptr), "cuStreamSynchronize");
}

std::optional<Key> CudaIntegerConvKernel::known_key(const OrtKernelInfo* info) const {
  // False where the node has the input, of a shape that is not known; the shape stays as it is where it has none.
  const auto know = [&](size_t index, std::optional<Shape>* shape) {
    try {
      *shape = known_shape(api(), info, index);
    } catch (const Error&) {
      return true;
    }
    return shape->has_value();
  };
  Key key{};
  std::optional<Shape> x, scales, zeros;
  if (!weight_problem_ && !know(IntegerConvInputs::kW, &key.w)) return std::nullopt;
  const bool known = know(IntegerConvInputs::kX, &x) && know(IntegerConvInputs::kWScale, &scales) &&
                     know(IntegerConvInputs::kWZero, &zeros) && know(IntegerConvInputs::kB, &key.b);
  if (!known || !x || !scales) return std::nullopt;
  key.x = *x;
  key.has_zeros = zeros.has_value();
  key.scales = check_quantization("w_scale", *scales, weights_of(key.w).oc);
  return key;
}

ConvProblem CudaIntegerConvKernel::weights_of(const std::optional<Shape>& w) const {
  return weight_problem_ ? *weight_problem_ : weight_problem(attributes_, *w);
}

std::shared_ptr<const ReadyRun> CudaIntegerConvKernel::ready(const Key& key) const {
  if (auto found = ready_runs_.find(key)) return found;
  ConvProblem problem = weights_of(key.w);
  complete_problem(attributes_, key.x, key.b ? &*key.b : nullptr, nullptr, &problem);
  cuda::Elements elements = elements_;
  elements.channels_have_scales = elements.channels_have_zeros = key.scales > 1;
  // Zero points of the run change the weights.
  const bool packed = packed_.data() != nullptr && key.has_zeros == has_packed_zeros_;
  const cuda::Plan plan = cuda::plan_run(elements, kOp, problem, gpu_.device(), {}, packed, {key.b.has_value()});
  auto made = std::make_shared<const ReadyRun>(gpu_, output_dims(attributes_, problem), plan);
  ready_runs_.insert(key, made);
  return made;
}

void CudaIntegerConvKernel::compute(OrtKernelContext* context) const {
  const IntegerConvInputs in(api(), context);
  const auto address = [&](size_t index) { return in[index] != nullptr ? data_of(api(), in[index]) : nullptr; };
  Key key{};
  key.x = shape_of(api(), in[IntegerConvInputs::kX]);
  if (!weight_problem_) key.w = shape_of(api(), in[IntegerConvInputs::kW]);
  if (in[IntegerConvInputs::kB] != nullptr) key.b = shape_of(api(), in[IntegerConvInputs::kB]);
  key.scales = check_quantizations(api(), in, weights_of(key.w).oc);
  key.has_zeros = in[IntegerConvInputs::kWZero] != nullptr;

  const cuda::Gpu::Current current(gpu_);
  const std::shared_ptr<const ReadyRun> run = ready(key);
  cuda::Addresses addresses;
  addresses[cuda::Buffer::kX] = address(IntegerConvInputs::kX);
  addresses[cuda::Buffer::kW] = address(IntegerConvInputs::kW);
  addresses[cuda::Buffer::kXScale] = address(IntegerConvInputs::kXScale);
  addresses[cuda::Buffer::kScales] = address(IntegerConvInputs::kWScale);
  addresses[cuda::Buffer::kXZero] = address(IntegerConvInputs::kXZero);
  addresses[cuda::Buffer::kZeros] = address(IntegerConvInputs::kWZero);
  addresses[cuda::Buffer::kB] = address(IntegerConvInputs::kB);
  addresses[cuda::Buffer::kPacked] = packed_.data();
  enqueue(api(), context, *run, addresses, &scratch_);
}

}  // namespace

std::unique_ptr<Kernel> make_cuda_integer_conv_kernel(const IntegerConvCreation& creation) {
  return std::make_unique<CudaIntegerConvKernel>(creation);
}

}  // namespace ortconv

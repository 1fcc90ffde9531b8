#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/recently_used.h"
#include "cuda/host/gpu.h"
#include "cuda/host/prepared.h"
#include "cuda/plan/plan.h"
#include "ops/convolution.h"
#include "ort/abi/attributes.h"
#include "ort/abi/cuda_run.h"
#include "ort/abi/device_memory.h"
#include "ort/abi/tensors.h"
#include "ort/convolution/inputs.h"
#include "ort/convolution/op.h"

namespace ortconv {
namespace {

// What decides how a run is computed.
struct Sizes {
  Shape x;
  std::optional<Shape> w;  // where the weights are not constant
  std::optional<Shape> b, residual;
  std::optional<std::vector<int64_t>> output_shape;

  bool operator==(const Sizes& other) const {
    return x == other.x && w == other.w && b == other.b && residual == other.residual &&
           output_shape == other.output_shape;
  }
};

class CudaConvKernel : public Kernel {
 public:
  explicit CudaConvKernel(const ConvCreation& creation);
  void compute(OrtKernelContext* context) const override;

 private:
  void pack(const OrtValue* w);
  std::optional<Sizes> known_sizes(const ConvCreation& creation) const;
  std::shared_ptr<const ReadyRun> ready(const Sizes& sizes) const;

  DataType dtype_;
  ConvAttributes attributes_;
  cuda::Options options_;
  DeviceAllocator allocator_;
  cuda::Gpu& gpu_;

  // For constant weights.
  std::optional<ConvProblem> weight_problem_;
  DeviceMemory packed_;

  mutable RecentlyUsed<Sizes, ReadyRun> ready_runs_{kReadyRuns};
  mutable ScratchMemory scratch_;
};

CudaConvKernel::CudaConvKernel(const ConvCreation& creation)
    : Kernel(creation.api, creation.subject),
      dtype_(creation.dtype),
      attributes_(read_attributes(creation.op, KernelAttributes(creation.api, creation.info))),
      allocator_(creation.api, creation.info),
      gpu_(cuda::Gpu::get(allocator_.ordinal())),
      scratch_(allocator_) {
  check_attributes(attributes_, dtype_);
  options_.tf32 = creation.settings.tf32;
  const cuda::Gpu::Current current(gpu_);
  const OrtValue* const w = constant_input(api(), creation.info, ConvIndices(creation.op).w);
  if (w != nullptr && allocator_.reaches(w)) pack(w);
  // Sizes that are refused are an error of the run that has them, as on the CPU.
  if (const auto sizes = known_sizes(creation)) {
    try {
      ready(*sizes);
    } catch (const Error&) {
    }
  }
}

// Creating a kernel may wait for the GPU; a run never does.
void CudaConvKernel::pack(const OrtValue* w) {
  weight_problem_ = weight_problem(attributes_, shape_of(api(), w));
  const cuda::WeightPlan plan =
      cuda::plan_weights(dtype_, direction_of(attributes_.op), *weight_problem_, gpu_.device(), options_);
  if (plan.packed_bytes == 0) return;
  packed_ = DeviceMemory(allocator_, plan.packed_bytes);
  cuda::Addresses addresses;
  addresses[cuda::Buffer::kW] = data_of(api(), w);
  addresses[cuda::Buffer::kPacked] = packed_.data();
  cuda::Prepared(gpu_, plan.launches).run(addresses, nullptr);
  gpu_.driver().check(gpu_.driver().cuStreamSynchronize(nullptr), "cuStreamSynchronize");
}

std::optional<Sizes> CudaConvKernel::known_sizes(const ConvCreation& creation) const {
  const ConvIndices at(attributes_.op);
  Sizes sizes;
  const auto x = known_shape(api(), creation.info, at.x);
  if (!x) return std::nullopt;
  sizes.x = *x;
  if (!weight_problem_) {
    sizes.w = known_shape(api(), creation.info, at.w);
    if (!sizes.w) return std::nullopt;
  }
  if (attributes_.op == ConvOp::kConvTransposeToShape) {
    const OrtValue* const output_shape = constant_input(api(), creation.info, at.output_shape);
    if (output_shape == nullptr) return std::nullopt;
    sizes.output_shape = output_shape_of(api(), output_shape);
  }
  if (attributes_.op == ConvOp::kConvTransposeAdd) {
    sizes.residual = known_shape(api(), creation.info, at.residual);
    if (!sizes.residual) return std::nullopt;
  }
  try {
    sizes.b = known_shape(api(), creation.info, at.b);
    if (!sizes.b) return std::nullopt;
  } catch (const Error&) {
    // The node has no B.
  }
  return sizes;
}

std::shared_ptr<const ReadyRun> CudaConvKernel::ready(const Sizes& sizes) const {
  if (auto found = ready_runs_.find(sizes)) return found;
  ConvProblem problem = weight_problem_ ? *weight_problem_ : weight_problem(attributes_, *sizes.w);
  complete_problem(attributes_, sizes.x, sizes.b ? &*sizes.b : nullptr,
                   sizes.output_shape ? &*sizes.output_shape : nullptr, &problem);
  if (sizes.residual) check_residual(attributes_, problem, *sizes.residual);
  const cuda::Plan plan = cuda::plan_run(dtype_, direction_of(attributes_.op), problem, gpu_.device(), options_,
                                         packed_.data() != nullptr, sizes.b.has_value(), sizes.residual.has_value());
  auto made = std::make_shared<const ReadyRun>(gpu_, output_dims(attributes_, problem), plan);
  ready_runs_.insert(sizes, made);
  return made;
}

void CudaConvKernel::compute(OrtKernelContext* context) const {
  const ConvInputs in(api(), context, attributes_.op);
  Sizes sizes;
  sizes.x = shape_of(api(), in.x);
  if (!weight_problem_) sizes.w = shape_of(api(), in.w);
  if (in.b != nullptr) sizes.b = shape_of(api(), in.b);
  if (in.residual != nullptr) sizes.residual = shape_of(api(), in.residual);
  if (in.output_shape != nullptr) sizes.output_shape = output_shape_of(api(), in.output_shape);

  const cuda::Gpu::Current current(gpu_);
  const std::shared_ptr<const ReadyRun> run = ready(sizes);
  cuda::Addresses addresses;
  addresses[cuda::Buffer::kX] = data_of(api(), in.x);
  addresses[cuda::Buffer::kW] = data_of(api(), in.w);
  addresses[cuda::Buffer::kPacked] = packed_.data();
  addresses[cuda::Buffer::kB] = in.b != nullptr ? data_of(api(), in.b) : nullptr;
  addresses[cuda::Buffer::kResidual] = in.residual != nullptr ? data_of(api(), in.residual) : nullptr;
  enqueue(api(), context, *run, addresses, &scratch_);
}

}  // namespace

std::unique_ptr<Kernel> make_cuda_conv_kernel(const ConvCreation& creation) {
  return std::make_unique<CudaConvKernel>(creation);
}

}  // namespace ortconv

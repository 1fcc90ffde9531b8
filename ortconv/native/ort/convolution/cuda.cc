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

class CudaConvKernel : public Kernel {
 public:
  explicit CudaConvKernel(const ConvCreation& creation);
  void compute(OrtKernelContext* context) const override;

 private:
  void pack(const OrtValue* w);
  std::shared_ptr<const ReadyRun> prepare(const Sizes& sizes) const;

  DataType dtype_;
  ConvAttributes attributes_;
  ConvReader reader_;
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
      reader_(creation.api, creation.info, creation.op, ConvReader::Constants::kReadByEachRun),
      allocator_(creation.api, creation.info),
      gpu_(cuda::Gpu::get(allocator_.ordinal())),
      scratch_(allocator_) {
  check_attributes(attributes_, dtype_);
  options_.tf32 = creation.settings.tf32;
  const cuda::Gpu::Current current(gpu_);
  const OrtValue* const w = constant_input(api(), creation.info, ConvIndices(creation.op).w);
  if (w != nullptr && allocator_.reaches(w)) pack(w);
  // Sizes that are refused are an error of the run that has them, as on the CPU.
  if (const auto sizes = known_sizes(api(), creation.info, attributes_, weight_problem_.has_value())) {
    try {
      prepare(*sizes);
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

std::shared_ptr<const ReadyRun> CudaConvKernel::prepare(const Sizes& sizes) const {
  const ConvProblem problem = problem_of(attributes_, weight_problem_ ? &*weight_problem_ : nullptr, sizes);
  cuda::Terms terms;
  terms.bias = sizes.b.has_value();
  terms.residual = sizes.residual.has_value();
  const cuda::Plan plan = cuda::plan_run(dtype_, direction_of(attributes_.op), problem, gpu_.device(), options_,
                                         packed_.data() != nullptr, terms);
  auto made = std::make_shared<const ReadyRun>(gpu_, output_dims(attributes_, problem), plan);
  ready_runs_.insert(sizes, made);
  return made;
}

void CudaConvKernel::compute(OrtKernelContext* context) const {
  const ConvInputs in = reader_.read(context);
  const SizesView sizes = sizes_of(in, weight_problem_.has_value());

  const cuda::Gpu::Current current(gpu_);
  std::shared_ptr<const ReadyRun> run = ready_runs_.find(sizes);
  if (run == nullptr) run = prepare(copy_of(sizes));
  cuda::Addresses addresses;
  addresses[cuda::Buffer::kX] = in.x->data;
  addresses[cuda::Buffer::kW] = in.w->data;
  addresses[cuda::Buffer::kPacked] = packed_.data();
  addresses[cuda::Buffer::kB] = in.b ? in.b->data : nullptr;
  addresses[cuda::Buffer::kResidual] = in.residual ? in.residual->data : nullptr;
  enqueue(api(), context, *run, addresses, &scratch_);
}

}  // namespace

std::unique_ptr<Kernel> make_cuda_conv_kernel(const ConvCreation& creation) {
  return std::make_unique<CudaConvKernel>(creation);
}

}  // namespace ortconv

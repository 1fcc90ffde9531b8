#include <cstdint>
#include <optional>
#include <vector>

#include "base/error.h"
#include "base/recently_used.h"
#include "cuda/host/gpu.h"
#include "cuda/host/prepared.h"
#include "cuda/plan/compressed_plan.h"
#include "ort/abi/cuda_run.h"
#include "ort/abi/device_memory.h"
#include "ort/abi/tensors.h"
#include "ort/matmul_nbits/inputs.h"
#include "ort/matmul_nbits/op.h"

namespace ortconv {
namespace {

// What decides how a run is computed.
struct Key {
  MatMulShapes shapes;
  bool x_aligned, codes_aligned;

  bool operator==(const Key& other) const {
    return shapes == other.shapes && x_aligned == other.x_aligned && codes_aligned == other.codes_aligned;
  }
};

bool is_aligned(const void* address) { return reinterpret_cast<std::uintptr_t>(address) % 16 == 0; }

class CudaMatMulKernel : public Kernel {
 public:
  explicit CudaMatMulKernel(const MatMulCreation& creation);
  void compute(OrtKernelContext* context) const override;

 private:
  std::optional<MatMulShapes> known_shapes(const OrtKernelInfo* info) const;
  cuda::CompressedProblem problem_of(const Key& key, Shape* y) const;
  std::shared_ptr<const ReadyRun> ready(const Key& key) const;

  MatMulOp op_;
  DataType dtype_;
  kernels::Code code_;
  int64_t block_;
  cuda::Options options_;
  DeviceAllocator allocator_;
  cuda::Gpu& gpu_;
  mutable RecentlyUsed<Key, ReadyRun> ready_runs_{kReadyRuns};
  mutable ScratchMemory scratch_;
};

CudaMatMulKernel::CudaMatMulKernel(const MatMulCreation& creation)
    : Kernel(creation.api, creation.subject),
      op_(creation.op),
      dtype_(creation.dtype),
      code_(creation.code),
      block_(block_size_of(creation.api, creation.info)),
      allocator_(creation.api, creation.info),
      gpu_(cuda::Gpu::get(allocator_.ordinal())),
      scratch_(allocator_) {
  options_.tf32 = creation.settings.tf32;
  const cuda::Gpu::Current current(gpu_);
  // Sizes that are refused are an error of the run that has them, as on the CPU.
  if (const auto shapes = known_shapes(creation.info)) {
    try {
      ready({*shapes, true, true});
    } catch (const Error&) {
    }
  }
}

std::optional<MatMulShapes> CudaMatMulKernel::known_shapes(const OrtKernelInfo* info) const {
  MatMulShapes shapes;
  std::vector<Shape*> required = {&shapes.x, &shapes.data, &shapes.scale};
  if (op_.gathers) required.push_back(&shapes.index.emplace());
  if (op_.has_codebook) required.push_back(&shapes.codebook.emplace());
  for (size_t i = 0; i < required.size(); ++i) {
    const auto known = known_shape(api(), info, i);
    if (!known) return std::nullopt;
    *required[i] = *known;
  }
  if (op_.has_codebook) return shapes;
  try {
    shapes.zero_point = known_shape(api(), info, MatMulIndices(op_).last);
    if (!shapes.zero_point) return std::nullopt;
  } catch (const Error&) {
    // The node has none.
  }
  return shapes;
}

// Of a run with these shapes, and the shape of its result. Throws Error where they do not fit.
cuda::CompressedProblem CudaMatMulKernel::problem_of(const Key& key, Shape* y) const {
  cuda::CompressedProblem problem{};
  problem.code = code_;
  problem.block = block_;
  problem.has_zeros = key.shapes.zero_point.has_value();
  problem.x_aligned = key.x_aligned;
  problem.codes_aligned = key.codes_aligned;
  if (!op_.gathers) {
    const MatMulSizes sizes = matmul_sizes(key.shapes, block_);
    problem.m = sizes.m, problem.n = sizes.n, problem.k = sizes.k;
    *y = sizes.y;
  } else {
    const GatherMatMulSizes sizes = gather_matmul_sizes(key.shapes, block_);
    problem.m = sizes.count, problem.n = sizes.n, problem.k = sizes.k;
    problem.has_index = true;
    problem.matrices = sizes.matrices, problem.sharing = sizes.sharing;
    *y = sizes.y;
  }
  return problem;
}

std::shared_ptr<const ReadyRun> CudaMatMulKernel::ready(const Key& key) const {
  if (auto found = ready_runs_.find(key)) return found;
  Shape y;
  const cuda::Plan plan = cuda::plan_compressed(dtype_, problem_of(key, &y), gpu_.device(), options_);
  auto made = std::make_shared<const ReadyRun>(gpu_, y, plan);
  ready_runs_.insert(key, made);
  return made;
}

void CudaMatMulKernel::compute(OrtKernelContext* context) const {
  const MatMulInputs in(api(), op_, context);
  cuda::Addresses addresses;
  addresses[cuda::Buffer::kX] = data_of(api(), in.x);
  addresses[cuda::Buffer::kCodes] = data_of(api(), in.data);
  addresses[cuda::Buffer::kScales] = data_of(api(), in.scale);
  addresses[cuda::Buffer::kZeros] = in.zero_point != nullptr ? data_of(api(), in.zero_point) : nullptr;
  addresses[cuda::Buffer::kTable] = in.codebook != nullptr ? data_of(api(), in.codebook) : nullptr;
  addresses[cuda::Buffer::kIndex] = in.index != nullptr ? data_of(api(), in.index) : nullptr;

  const cuda::Gpu::Current current(gpu_);
  const std::shared_ptr<const ReadyRun> run = ready(
      {MatMulShapes(api(), in), is_aligned(addresses[cuda::Buffer::kX]), is_aligned(addresses[cuda::Buffer::kCodes])});
  enqueue(api(), context, *run, addresses, &scratch_);
}

}  // namespace

std::unique_ptr<Kernel> make_cuda_matmul_kernel(const MatMulCreation& creation) {
  return std::make_unique<CudaMatMulKernel>(creation);
}

}  // namespace ortconv

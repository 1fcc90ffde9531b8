#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/recently_used.h"
#include "cuda/host/gpu.h"
#include "cuda/plan/fourier_plan.h"
#include "ort/abi/cuda_run.h"
#include "ort/abi/device_memory.h"
#include "ort/abi/tensors.h"
#include "ort/fourier/inputs.h"
#include "ort/fourier/op.h"

namespace ortconv {
namespace {

// What decides how a run is computed.
struct Key {
  Shape data, window;
  std::optional<Shape> gains, sines;
  int64_t length = 0;  // the input of that name, of FourierTransform

  bool operator==(const Key& other) const {
    return data == other.data && window == other.window && gains == other.gains && sines == other.sines &&
           length == other.length;
  }
};

// The tables of one length on the GPU.
struct Tables {
  Tables(const DeviceAllocator& allocator, const cuda::Gpu& gpu, DataType dtype, int64_t length)
      : steps(dtype, length, gpu.device()), memory(allocator, steps.table_bytes()) {
    gpu.upload(memory.data(), steps.tables());
  }

  cuda::FourierSteps steps;
  DeviceMemory memory;
};

// A run of some sizes, ready to be enqueued.
struct FourierRun {
  ReadyRun launches;
  void* tables;
};

class CudaFourierKernel : public Kernel {
 public:
  explicit CudaFourierKernel(const FourierCreation& creation);
  void compute(OrtKernelContext* context) const override;

 private:
  std::optional<Key> known_key(const OrtKernelInfo* info) const;
  const Tables& tables_of(int64_t length) const;
  std::shared_ptr<const FourierRun> ready(const Key& key) const;
  FourierRun plan_transform(const Key& key) const;
  FourierRun plan_stft(const Key& key) const;

  FourierOp op_;
  DataType dtype_;
  TransformAttributes transform_;  // of FourierTransform
  StftAttributes stft_;            // of the others
  DeviceAllocator allocator_;
  cuda::Gpu& gpu_;
  // By length. They stay as long as the kernel: launches under way may read them.
  mutable std::mutex mutex_;
  mutable std::map<int64_t, std::unique_ptr<const Tables>> tables_;
  mutable RecentlyUsed<Key, FourierRun> ready_runs_{kReadyRuns};
  mutable ScratchMemory scratch_;
};

CudaFourierKernel::CudaFourierKernel(const FourierCreation& creation)
    : Kernel(creation.api, creation.subject),
      op_(creation.op),
      dtype_(creation.dtype),
      allocator_(creation.api, creation.info),
      gpu_(cuda::Gpu::get(allocator_.ordinal())),
      scratch_(allocator_) {
  const KernelAttributes attributes(creation.api, creation.info);
  if (op_ == FourierOp::kTransform) {
    transform_ = transform_attributes(attributes);
  } else {
    stft_ = stft_attributes(op_, attributes);
  }
  const cuda::Gpu::Current current(gpu_);
  // Sizes that are refused are an error of the run that has them, as on the CPU.
  try {
    if (const auto key = known_key(creation.info)) {
      ready(*key);
    } else if (stft_.n_fft > 0 && stft_.n_fft <= kAnyTransform) {
      tables_of(stft_.n_fft);
    }
  } catch (const Error&) {
  }
}

std::optional<Key> CudaFourierKernel::known_key(const OrtKernelInfo* info) const {
  Key key;
  const auto data = known_shape(api(), info, FourierIndices::kData);
  if (!data) return std::nullopt;
  key.data = *data;
  // Of the last input, which the node may lack.
  const auto is_absent = [&](size_t index, std::optional<Shape>* shape) {
    try {
      *shape = known_shape(api(), info, index);
    } catch (const Error&) {
      return true;
    }
    return false;
  };
  std::optional<Shape> last;
  if (op_ == FourierOp::kTransform) {
    if (is_absent(FourierIndices::kLength, &last)) return key;
    const OrtValue* const length = constant_input(api(), info, FourierIndices::kLength);
    if (length == nullptr) return std::nullopt;
    key.length = integer_of(api(), length, "length", 0);
    return key;
  }
  const auto window = known_shape(api(), info, FourierIndices::kWindow);
  if (!window) return std::nullopt;
  key.window = *window;
  if (op_ == FourierOp::kOverlapAdd) return key;
  key.gains = known_shape(api(), info, FourierIndices::kGains);
  if (!key.gains) return std::nullopt;
  if (op_ == FourierOp::kForward || is_absent(FourierIndices::kSines, &last)) return key;
  key.sines = last;
  return last ? std::optional<Key>(key) : std::nullopt;
}

// Waits for the GPU where the length is met for the first time.
const Tables& CudaFourierKernel::tables_of(int64_t length) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::unique_ptr<const Tables>& tables = tables_[length];
  if (tables == nullptr) tables = std::make_unique<const Tables>(allocator_, gpu_, dtype_, length);
  return *tables;
}

FourierRun CudaFourierKernel::plan_transform(const Key& key) const {
  const TransformRun run = transform_run(transform_, key.data, key.length);
  if (run.outer * run.inner == 0) return {ReadyRun(gpu_, run.y, {}), nullptr};
  const Tables& tables = tables_of(run.length);
  const cuda::AxisTransform transform{
      run.outer, run.size, run.inner, run.x_parts, run.count, run.y_parts, transform_.is_inverse};
  return {ReadyRun(gpu_, run.y, cuda::plan_transform(dtype_, tables.steps, transform, gpu_.device())),
          tables.memory.data()};
}

FourierRun CudaFourierKernel::plan_stft(const Key& key) const {
  const StftRun run = stft_run(op_, stft_, {key.data, key.window, key.gains, key.sines});
  if (op_ == FourierOp::kOverlapAdd) {
    return {ReadyRun(gpu_, run.y, cuda::plan_overlap_add(dtype_, run.problem, gpu_.device())), nullptr};
  }
  const Tables& tables = tables_of(stft_.n_fft);
  const cuda::Plan plan =
      op_ == FourierOp::kForward
          ? cuda::plan_forward_stft(dtype_, tables.steps, run.problem, gpu_.device())
          : cuda::plan_inverse_stft(dtype_, tables.steps, run.problem, key.sines.has_value(), gpu_.device());
  return {ReadyRun(gpu_, run.y, plan), tables.memory.data()};
}

std::shared_ptr<const FourierRun> CudaFourierKernel::ready(const Key& key) const {
  if (auto found = ready_runs_.find(key)) return found;
  auto made = std::make_shared<const FourierRun>(op_ == FourierOp::kTransform ? plan_transform(key) : plan_stft(key));
  ready_runs_.insert(key, made);
  return made;
}

void CudaFourierKernel::compute(OrtKernelContext* context) const {
  cuda::Addresses addresses;
  // The shape of an input, whose address is noted; none where the node lacks it.
  const auto take = [&](size_t index, cuda::Buffer buffer) -> std::optional<Shape> {
    const OrtValue* const value = input_of(api(), context, index);
    if (value == nullptr) return std::nullopt;
    addresses[buffer] = data_of(api(), value);
    return shape_of(api(), value);
  };
  Key key;
  key.data = *take(FourierIndices::kData, cuda::Buffer::kX);
  if (op_ == FourierOp::kTransform) {
    key.length = integer_of(api(), input_of(api(), context, FourierIndices::kLength), "length", 0);
  } else {
    key.window = *take(FourierIndices::kWindow, cuda::Buffer::kWindow);
  }
  if (op_ == FourierOp::kForward || op_ == FourierOp::kInverse) {
    key.gains = take(FourierIndices::kGains, cuda::Buffer::kGains);
  }
  if (op_ == FourierOp::kInverse) key.sines = take(FourierIndices::kSines, cuda::Buffer::kSines);

  const cuda::Gpu::Current current(gpu_);
  const std::shared_ptr<const FourierRun> run = ready(key);
  addresses[cuda::Buffer::kTables] = run->tables;
  enqueue(api(), context, run->launches, addresses, &scratch_);
}

}  // namespace

std::unique_ptr<Kernel> make_cuda_fourier_kernel(const FourierCreation& creation) {
  return std::make_unique<CudaFourierKernel>(creation);
}

}  // namespace ortconv

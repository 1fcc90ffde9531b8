#include "ort/abi/tensors.h"

#include <algorithm>
#include <cstdint>
#include <thread>

#include "base/error.h"
#include "ort/abi/boundary.h"

namespace ortconv {

namespace {

Numbers dims_of(const OrtApi* api, const OrtValue* tensor) {
  int type = 0;
  Numbers dims;
  invoke<abi::GetTensorElementTypeAndShapeDataReference>(api, tensor, &type, &dims.data, &dims.count);
  return dims;
}

}  // namespace

TensorView view_of(const OrtApi* api, const OrtValue* tensor) { return {data_of(api, tensor), dims_of(api, tensor)}; }

Shape shape_of(const OrtApi* api, const OrtValue* tensor) { return dims_of(api, tensor).copy(); }

void* data_of(const OrtApi* api, const OrtValue* tensor) {
  void* data = nullptr;
  invoke<abi::GetTensorMutableData>(api, const_cast<OrtValue*>(tensor), &data);
  return data;
}

const OrtValue* constant_input(const OrtApi* api, const OrtKernelInfo* info, size_t index) {
  int is_constant = 0;
  const OrtValue* value = nullptr;
  invoke<abi::KernelInfoGetConstantInput>(api, info, index, &is_constant, &value);
  return is_constant != 0 ? value : nullptr;
}

std::optional<Shape> known_shape(const OrtApi* api, const OrtKernelInfo* info, size_t index) {
  OrtTypeInfo* raw = nullptr;
  invoke<abi::KernelInfoGetInputTypeInfo>(api, info, index, &raw);
  const auto release = [api](OrtTypeInfo* type) { abi::ReleaseTypeInfo::call(api, type); };
  const std::unique_ptr<OrtTypeInfo, decltype(release)> type(raw, release);
  const OrtTensorTypeAndShapeInfo* tensor = nullptr;
  invoke<abi::CastTypeInfoToTensorInfo>(api, static_cast<const OrtTypeInfo*>(raw), &tensor);
  if (tensor == nullptr) return std::nullopt;
  size_t rank = 0;
  invoke<abi::GetDimensionsCount>(api, tensor, &rank);
  Shape shape(rank);
  invoke<abi::GetDimensions>(api, tensor, shape.data(), rank);
  // A tensor of unknown rank has no dims here; ours all have some.
  if (rank == 0 || std::any_of(shape.begin(), shape.end(), [](int64_t size) { return size < 0; })) return std::nullopt;
  return shape;
}

OrtValue* make_output(const OrtApi* api, OrtKernelContext* context, const Shape& shape) {
  OrtValue* y = nullptr;
  try {
    invoke<abi::KernelContextGetOutput>(api, context, size_t{0}, shape.data(), shape.size(), &y);
  } catch (const Error& error) {
    fail("output Y of shape ", to_string(shape), " cannot be allocated: ", error.what());
  }
  return y;
}

Scratch::Scratch(const OrtApi* api, const OrtKernelContext* context, const OrtValue* like, size_t bytes) : api_(api) {
  if (bytes <= kOwnBytes) {
    aligned_ = own_;
    return;
  }
  if (bytes > SIZE_MAX - kAlignment) throw std::bad_alloc();
  const OrtMemoryInfo* memory = nullptr;
  invoke<abi::GetTensorMemoryInfo>(api, like, &memory);
  invoke<abi::KernelContextGetAllocator>(api, context, memory, &allocator_);
  try {
    invoke<abi::AllocatorAlloc>(api, allocator_, bytes + kAlignment, &block_);
    if (block_ == nullptr) throw std::bad_alloc();
  } catch (...) {
    abi::ReleaseAllocator::call(api, allocator_);
    throw;
  }
  aligned_ = block_;
  size_t space = bytes + kAlignment;
  std::align(kAlignment, bytes, aligned_, space);
}

Scratch::~Scratch() {
  if (block_ == nullptr) return;
  if (OrtStatus* status = abi::AllocatorFree::call(api_, allocator_, block_)) abi::ReleaseStatus::call(api_, status);
  abi::ReleaseAllocator::call(api_, allocator_);
}

Parallel SessionThreads::parallel() {
  // The pool does not tell its size.
  static const int threads = std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, 256);

  Parallel parallel;
  parallel.context = this;
  parallel.threads = threads;
  parallel.run = [](void* context, int64_t n, void (*fn)(void*, int64_t), void* arg) {
    if (n <= 0) return;
    struct Call {
      void (*fn)(void*, int64_t);
      void* arg;
    } call{fn, arg};
    const auto one = [](void* data, size_t i) {
      const auto* call = static_cast<const Call*>(data);
      call->fn(call->arg, static_cast<int64_t>(i));
    };
    // More batches than threads, so that one slow batch does not keep the others waiting.
    const int64_t batches = std::min<int64_t>(n, 8 * int64_t{threads});
    const auto* self = static_cast<const SessionThreads*>(context);
    invoke<abi::KernelContextParallelFor>(self->api_, self->context_, +one, static_cast<size_t>(n),
                                          static_cast<size_t>(batches), static_cast<void*>(&call));
  };
  return parallel;
}

}  // namespace ortconv

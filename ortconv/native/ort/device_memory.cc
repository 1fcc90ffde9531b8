#include "ort/device_memory.h"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "cuda/host/error.h"
#include "ort/boundary.h"

namespace ortconv {
namespace {

// The allocator of the memory in which a kernel's tensors lie.
OrtAllocator* allocator_of(const OrtApi* api, const OrtKernelInfo* info) {
  OrtAllocator* allocator = nullptr;
  invoke<abi::KernelInfoGetAllocator>(api, info, abi::kMemTypeDefault, &allocator);
  return allocator;
}

const OrtMemoryInfo* memory_of(const OrtApi* api, const OrtAllocator* allocator) {
  const OrtMemoryInfo* memory = nullptr;
  invoke<abi::AllocatorGetInfo>(api, allocator, &memory);
  return memory;
}

std::string name_of(const OrtApi* api, const OrtMemoryInfo* memory) {
  const char* name = nullptr;
  invoke<abi::MemoryInfoGetName>(api, memory, &name);
  return name;
}

// Runs fn, in whose place a failure says what it was about.
template <class Fn>
void allocating(size_t bytes, Fn&& fn) {
  try {
    fn();
  } catch (const Error& error) {
    cuda::device_fail("there is no room for ", bytes, " bytes on the GPU: ", error.what(),
                      " Close other programs that use it, take smaller inputs, or raise the CUDA provider's option "
                      "gpu_mem_limit.");
  }
}

}  // namespace

DeviceMemory::~DeviceMemory() {
  if (allocator_ == nullptr) return;
  if (block_ != nullptr) {
    if (OrtStatus* status = abi::AllocatorFree::call(api_, allocator_, block_)) abi::ReleaseStatus::call(api_, status);
  }
  abi::ReleaseAllocator::call(api_, allocator_);
}

DeviceMemory::DeviceMemory(DeviceMemory&& other) noexcept
    : api_(other.api_),
      allocator_(std::exchange(other.allocator_, nullptr)),
      block_(std::exchange(other.block_, nullptr)),
      aligned_(std::exchange(other.aligned_, nullptr)) {}

DeviceMemory& DeviceMemory::operator=(DeviceMemory&& other) noexcept {
  std::swap(api_, other.api_);
  std::swap(allocator_, other.allocator_);
  std::swap(block_, other.block_);
  std::swap(aligned_, other.aligned_);
  return *this;
}

void DeviceMemory::hold(void* block, size_t bytes) {
  if (block == nullptr) fail("the allocator returns nothing");
  block_ = aligned_ = block;
  size_t space = bytes + kAlignment;
  std::align(kAlignment, bytes, aligned_, space);
}

DeviceMemory DeviceMemory::lasting(const OrtApi* api, const OrtKernelInfo* info, size_t bytes) {
  if (bytes == 0) return DeviceMemory();
  DeviceMemory memory(api, allocator_of(api, info));
  allocating(bytes, [&] {
    void* block = nullptr;
    invoke<abi::AllocatorAlloc>(api, memory.allocator_, bytes + kAlignment, &block);
    memory.hold(block, bytes);
  });
  return memory;
}

DeviceMemory DeviceMemory::for_run(const OrtApi* api, const OrtKernelContext* context, const OrtValue* like,
                                   void* stream, size_t bytes) {
  if (bytes == 0) return DeviceMemory();
  const OrtMemoryInfo* where = nullptr;
  OrtAllocator* allocator = nullptr;
  invoke<abi::GetTensorMemoryInfo>(api, like, &where);
  invoke<abi::KernelContextGetAllocator>(api, context, where, &allocator);
  DeviceMemory memory(api, allocator);
  allocating(bytes, [&] {
    void* block = nullptr;
    if (stream != nullptr) {
      invoke<abi::KernelContextGetScratchBuffer>(api, context, where, bytes + kAlignment, &block);
    } else {
      invoke<abi::AllocatorAlloc>(api, allocator, bytes + kAlignment, &block);
    }
    memory.hold(block, bytes);
  });
  return memory;
}

int device_ordinal(const OrtApi* api, const OrtKernelInfo* info) {
  const auto release = [api](OrtAllocator* allocator) { abi::ReleaseAllocator::call(api, allocator); };
  const std::unique_ptr<OrtAllocator, decltype(release)> allocator(allocator_of(api, info), release);
  int ordinal = 0;
  invoke<abi::MemoryInfoGetId>(api, memory_of(api, allocator.get()), &ordinal);
  return ordinal;
}

bool is_in_device_memory(const OrtApi* api, const OrtKernelInfo* info, const OrtValue* tensor) {
  const auto release = [api](OrtAllocator* allocator) { abi::ReleaseAllocator::call(api, allocator); };
  const std::unique_ptr<OrtAllocator, decltype(release)> allocator(allocator_of(api, info), release);
  const OrtMemoryInfo* where = nullptr;
  invoke<abi::GetTensorMemoryInfo>(api, tensor, &where);
  const std::string name = name_of(api, where);
  return name != "Cpu" || name == name_of(api, memory_of(api, allocator.get()));
}

}  // namespace ortconv

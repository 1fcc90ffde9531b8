#include "ort/abi/device_memory.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "cuda/host/error.h"
#include "ort/abi/boundary.h"

namespace ortconv {
namespace {

std::string name_of(const OrtApi* api, const OrtMemoryInfo* memory) {
  const char* name = nullptr;
  invoke<abi::MemoryInfoGetName>(api, memory, &name);
  return name;
}

}  // namespace

DeviceAllocator::DeviceAllocator(const OrtApi* api, const OrtKernelInfo* info) : api_(api) {
  invoke<abi::KernelInfoGetAllocator>(api, info, abi::kMemTypeDefault, &allocator_);
}

DeviceAllocator::~DeviceAllocator() { abi::ReleaseAllocator::call(api_, allocator_); }

const OrtMemoryInfo* DeviceAllocator::memory() const {
  const OrtMemoryInfo* memory = nullptr;
  invoke<abi::AllocatorGetInfo>(api_, static_cast<const OrtAllocator*>(allocator_), &memory);
  return memory;
}

int DeviceAllocator::ordinal() const {
  int ordinal = 0;
  invoke<abi::MemoryInfoGetId>(api_, memory(), &ordinal);
  return ordinal;
}

bool DeviceAllocator::reaches(const OrtValue* tensor) const {
  const OrtMemoryInfo* where = nullptr;
  invoke<abi::GetTensorMemoryInfo>(api_, tensor, &where);
  const std::string name = name_of(api_, where);
  return name != "Cpu" || name == name_of(api_, memory());
}

void* DeviceAllocator::allocate(size_t bytes) const {
  void* block = nullptr;
  try {
    invoke<abi::AllocatorAlloc>(api_, allocator_, bytes, &block);
    if (block == nullptr) fail("the allocator returns nothing");
  } catch (const Error& error) {
    cuda::device_fail("there is no room for ", bytes, " bytes on the GPU: ", error.what(),
                      " Close other programs that use it, take smaller inputs, or raise the CUDA provider's option "
                      "gpu_mem_limit.");
  }
  return block;
}

void DeviceAllocator::free(void* block) const noexcept {
  if (OrtStatus* status = abi::AllocatorFree::call(api_, allocator_, block)) abi::ReleaseStatus::call(api_, status);
}

DeviceMemory::DeviceMemory(const DeviceAllocator& allocator, size_t bytes) {
  if (bytes == 0) return;
  size_t space = bytes + kAlignment;
  block_ = aligned_ = allocator.allocate(space);
  allocator_ = &allocator;
  std::align(kAlignment, bytes, aligned_, space);
}

DeviceMemory::~DeviceMemory() {
  if (block_ != nullptr) allocator_->free(block_);
}

DeviceMemory::DeviceMemory(DeviceMemory&& other) noexcept
    : allocator_(other.allocator_),
      block_(std::exchange(other.block_, nullptr)),
      aligned_(std::exchange(other.aligned_, nullptr)) {}

DeviceMemory& DeviceMemory::operator=(DeviceMemory&& other) noexcept {
  std::swap(allocator_, other.allocator_);
  std::swap(block_, other.block_);
  std::swap(aligned_, other.aligned_);
  return *this;
}

void* ScratchMemory::block_for(void* stream, size_t bytes) {
  std::vector<Block>& blocks = blocks_[stream];
  if (blocks.empty() || blocks.back().bytes < bytes) {
    // Twice the size: all that became too small are less than the one in use.
    const size_t enough = blocks.empty() ? bytes : std::max(bytes, 2 * blocks.back().bytes);
    blocks.push_back({enough, DeviceMemory(allocator_, enough)});
  }
  return blocks.back().memory.data();
}

}  // namespace ortconv

// Memory on the GPU, from ONNX Runtime's allocator of it.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <vector>

#include "ort/abi/abi.h"

namespace ortconv {

// The allocator of the memory in which a kernel's tensors lie. Any number of threads may use it.
class DeviceAllocator {
 public:
  DeviceAllocator(const OrtApi* api, const OrtKernelInfo* info);
  ~DeviceAllocator();
  DeviceAllocator(const DeviceAllocator&) = delete;
  DeviceAllocator& operator=(const DeviceAllocator&) = delete;

  // The CUDA device that the memory is of.
  int ordinal() const;

  // Whether a tensor lies in memory that the kernel's launches can read: not in the host's, unless this allocator takes
  // from it.
  bool reaches(const OrtValue* tensor) const;

  // Throws cuda::DeviceError when there is too little.
  void* allocate(size_t bytes) const;
  void free(void* block) const noexcept;

 private:
  const OrtMemoryInfo* memory() const;

  const OrtApi* api_;
  OrtAllocator* allocator_ = nullptr;
};

// A block, aligned for what the kernels need. Given back on destruction, before which the allocator lives.
class DeviceMemory {
 public:
  static constexpr size_t kAlignment = 256;

  DeviceMemory() = default;
  // With 0 bytes nothing is allocated.
  DeviceMemory(const DeviceAllocator& allocator, size_t bytes);
  ~DeviceMemory();
  DeviceMemory(DeviceMemory&& other) noexcept;
  DeviceMemory& operator=(DeviceMemory&& other) noexcept;

  void* data() const { return aligned_; }

 private:
  const DeviceAllocator* allocator_ = nullptr;
  void* block_ = nullptr;
  void* aligned_ = nullptr;
};

// What the launches of a run of one kernel leave for each other. A stream carries out runs one after the other, so they
// share a block; each stream has its own. Blocks live as long as this object, also those that became too small, which
// launches under way may use.
//
// ONNX Runtime's own scratch buffers would be shared by the nodes of a session, but ONNX Runtime 1.31 ends the process
// where there is no room for one.
class ScratchMemory {
 public:
  explicit ScratchMemory(const DeviceAllocator& allocator) : allocator_(allocator) {}

  // Calls enqueue(block), which may enqueue launches on the stream, while no other thread enqueues what uses a block.
  // With 0 bytes the block is null and nobody waits.
  template <class Fn>
  void with_block(void* stream, size_t bytes, Fn&& enqueue) {
    if (bytes == 0) return enqueue(static_cast<void*>(nullptr));
    const std::lock_guard<std::mutex> lock(mutex_);
    enqueue(block_for(stream, bytes));
  }

 private:
  struct Block {
    size_t bytes;
    DeviceMemory memory;
  };

  void* block_for(void* stream, size_t bytes);

  const DeviceAllocator& allocator_;
  std::mutex mutex_;
  std::map<void*, std::vector<Block>> blocks_;  // of each stream, the one in use last
};

}  // namespace ortconv

// Memory on the GPU, from ONNX Runtime's allocator of it.
#pragma once

#include <cstddef>

#include "ort/abi.h"

namespace ortconv {

// Given back on destruction. Throws cuda::DeviceError when there is too little.
class DeviceMemory {
 public:
  static constexpr size_t kAlignment = 256;

  DeviceMemory() = default;
  ~DeviceMemory();
  DeviceMemory(DeviceMemory&& other) noexcept;
  DeviceMemory& operator=(DeviceMemory&& other) noexcept;

  // For as long as the object lives. With 0 bytes nothing is allocated, as below.
  static DeviceMemory lasting(const OrtApi* api, const OrtKernelInfo* info, size_t bytes);

  // For what is enqueued on the run's stream before the object dies. `like` is a tensor in the memory wanted.
  static DeviceMemory for_run(const OrtApi* api, const OrtKernelContext* context, const OrtValue* like, void* stream,
                              size_t bytes);

  void* data() const { return aligned_; }

 private:
  DeviceMemory(const OrtApi* api, OrtAllocator* allocator) : api_(api), allocator_(allocator) {}
  void hold(void* block, size_t bytes);

  const OrtApi* api_ = nullptr;
  OrtAllocator* allocator_ = nullptr;
  void* block_ = nullptr;
  void* aligned_ = nullptr;
};

// The CUDA device that a kernel will run on.
int device_ordinal(const OrtApi* api, const OrtKernelInfo* info);

// Whether a tensor lies in memory that the kernel's launches can read: not in the host's, unless lasting() takes from
// it.
bool is_in_device_memory(const OrtApi* api, const OrtKernelInfo* info, const OrtValue* tensor);

}  // namespace ortconv

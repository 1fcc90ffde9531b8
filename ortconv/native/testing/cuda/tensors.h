// Tensors that the emulator's launches use.
#pragma once

#include <algorithm>
#include <cstring>
#include <new>
#include <vector>

#include "cuda/plan/plan.h"
#include "testing/gpu/run.h"

namespace ortconv::cuda {

// Exactly `bytes`, aligned as the plan may expect, full of NaNs.
class DeviceMemory {
 public:
  explicit DeviceMemory(size_t bytes) : data_(::operator new(bytes, std::align_val_t(256))) {
    std::memset(data_, 0xff, bytes);
  }
  ~DeviceMemory() { ::operator delete(data_, std::align_val_t(256)); }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  void* data() { return data_; }

 private:
  void* data_;
};

// A tensor that begins so many elements behind an aligned place.
template <class T>
class Tensor {
 public:
  Tensor(const std::vector<T>& values, int64_t skew)
      : memory_((values.size() + static_cast<size_t>(skew)) * sizeof(T)),
        data_(static_cast<T*>(memory_.data()) + skew),
        size_(values.size()) {
    std::copy(values.begin(), values.end(), data_);
  }
  void put(Buffer buffer, ptx::Content content, emulator::Memory* memory) const {
    memory->set(buffer, data_, size_ * sizeof(T), content);
  }
  std::vector<T> values() const { return std::vector<T>(data_, data_ + size_); }

 private:
  DeviceMemory memory_;
  T* data_;
  size_t size_;
};

// Devices as they are sold, but for the number of multiprocessors, which is small where the emulator shall be quick.
inline const Device kDevices[] = {{75, 2, 64 << 10}, {80, 3, 163 << 10}, {90, 2, 227 << 10}, {120, 1, 99 << 10}};

}  // namespace ortconv::cuda

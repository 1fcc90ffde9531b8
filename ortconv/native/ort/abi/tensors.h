// The few things a kernel does with ONNX Runtime's tensors, memory and threads.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/parallel.h"
#include "ops/conv_params.h"
#include "ort/abi/abi.h"

namespace ortconv {

// Numbers that lie elsewhere.
struct Numbers {
  const int64_t* data = nullptr;
  size_t count = 0;

  const int64_t* begin() const { return data; }
  const int64_t* end() const { return data + count; }
  std::vector<int64_t> copy() const { return std::vector<int64_t>(begin(), end()); }
};
inline bool operator==(const std::vector<int64_t>& a, const Numbers& b) {
  return a.size() == b.count && std::equal(b.begin(), b.end(), a.begin());
}

// A tensor's elements and dims, which lie in memory of ONNX Runtime's, as long as the tensor does.
struct TensorView {
  void* data = nullptr;
  Numbers dims;
};

// Throws Error when ONNX Runtime reports one, as everything here.
TensorView view_of(const OrtApi* api, const OrtValue* tensor);

Shape shape_of(const OrtApi* api, const OrtValue* tensor);

// The tensor's elements. ONNX Runtime has no const accessor; inputs must not be written.
void* data_of(const OrtApi* api, const OrtValue* tensor);

// An input that never changes; null if there is none at this index.
const OrtValue* constant_input(const OrtApi* api, const OrtKernelInfo* info, size_t index);

// The shape that an input always has, as far as ONNX Runtime knows when it creates the kernel.
std::optional<Shape> known_shape(const OrtApi* api, const OrtKernelInfo* info, size_t index);

// Makes the only output of a run.
OrtValue* make_output(const OrtApi* api, OrtKernelContext* context, const Shape& shape);

// 64-byte aligned memory from the allocator of the session, given back on destruction. A little memory is its own: a
// small convolution takes less time than the allocator.
class Scratch {
 public:
  // `like` is a tensor in the memory wanted. With 0 bytes nothing is allocated.
  Scratch(const OrtApi* api, const OrtKernelContext* context, const OrtValue* like, size_t bytes);
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  void* data() const { return aligned_; }

 private:
  static constexpr size_t kAlignment = 64, kOwnBytes = 16 << 10;

  alignas(kAlignment) unsigned char own_[kOwnBytes];
  const OrtApi* api_;
  OrtAllocator* allocator_ = nullptr;
  void* block_ = nullptr;
  void* aligned_ = nullptr;
};

// The threads of the session's own pool, for the run that `context` belongs to.
class SessionThreads {
 public:
  SessionThreads(const OrtApi* api, const OrtKernelContext* context) : api_(api), context_(context) {}
  Parallel parallel();

 private:
  const OrtApi* api_;
  const OrtKernelContext* context_;
};

}  // namespace ortconv

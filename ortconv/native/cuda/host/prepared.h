// Launches made ready: programs loaded, nothing left to look up.
#pragma once

#include <cstddef>
#include <vector>

#include "cuda/host/gpu.h"
#include "cuda/plan/plan.h"

namespace ortconv::cuda {

// Largest argument of a kernel, which any device takes.
constexpr size_t kMaxParamBytes = 4096;

// The address of each Buffer on the GPU; null where there is none.
class Addresses {
 public:
  void*& operator[](Buffer buffer) { return all_[static_cast<size_t>(buffer)]; }
  const void* operator[](Buffer buffer) const { return all_[static_cast<size_t>(buffer)]; }

 private:
  void* all_[static_cast<size_t>(Buffer::kScratch) + 1] = {};
};

// Immutable after creation: concurrent runs may share it.
class Prepared {
 public:
  // Compiles and loads what the launches need. The GPU's context is current.
  Prepared(Gpu& gpu, const std::vector<Launch>& launches);

  // Enqueues the launches on a stream of the GPU, whose context is current. Waits for nothing, copies nothing.
  void run(const Addresses& addresses, Stream stream) const;

 private:
  struct Step {
    Function function;
    Launch launch;
  };

  const Driver* driver_;
  std::vector<Step> steps_;
};

}  // namespace ortconv::cuda

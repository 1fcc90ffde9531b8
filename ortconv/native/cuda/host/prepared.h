// Launches made ready: programs loaded, nothing left to look up.
#pragma once

#include <cstddef>
#include <vector>

#include "cuda/host/gpu.h"
#include "cuda/plan/plan.h"

namespace ortconv::cuda {

// Largest argument of a kernel, which any device takes.
constexpr size_t kMaxParamBytes = 4096;

// Addresses on the GPU by Buffer; null where there is none.
struct Addresses {
  void* x = nullptr;
  void* w = nullptr;
  void* codes = nullptr;
  void* x_scale = nullptr;
  void* x_zero = nullptr;
  void* scales = nullptr;
  void* zeros = nullptr;
  void* table = nullptr;
  void* index = nullptr;
  void* packed = nullptr;
  void* b = nullptr;
  void* residual = nullptr;
  void* y = nullptr;
  void* scratch = nullptr;

  void* of(Buffer buffer) const;
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

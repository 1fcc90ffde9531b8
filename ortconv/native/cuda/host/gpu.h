// One GPU: what it can do, and the programs that are loaded on it.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cuda/host/driver.h"
#include "cuda/host/nvrtc.h"
#include "cuda/plan/plan.h"

namespace ortconv::cuda {

// Any number of threads may use it.
class Gpu {
 public:
  // The GPU that ONNX Runtime calls device `ordinal`. Lives until the process ends. Throws DeviceError when there is
  // none, when it is too old, or when the compiler for it is missing.
  static Gpu& get(int ordinal);

  const Device& device() const { return device_; }
  const Driver& driver() const { return driver_; }

  // Returns a function of a program that may be launched with so much dynamic shared memory. The program is compiled,
  // or found on the disk, and loaded when it is asked for first. The GPU's context is current.
  Function function(const ProgramKey& program, const std::string& name, size_t shared_bytes);

  // Copies to the GPU's memory, and waits until the bytes are there. The GPU's context is current.
  void upload(void* to, const std::vector<unsigned char>& bytes) const;

  // Makes the GPU's primary context, in which ONNX Runtime works, current in this thread for as long as it lives.
  class Current {
   public:
    explicit Current(const Gpu& gpu);
    ~Current();
    Current(const Current&) = delete;
    Current& operator=(const Current&) = delete;

   private:
    const Driver* pushed_ = nullptr;
  };

 private:
  struct Loaded {
    Function function;
    size_t shared_bytes;  // that it may be launched with
  };
  struct Program {
    std::mutex mutex;
    Module module = nullptr;
    std::map<std::string, Loaded> functions;
  };

  Gpu(const Driver& driver, int ordinal);

  Module load(const ProgramKey& program) const;

  const Driver& driver_;
  const Nvrtc& nvrtc_;
  Device device_;
  Context context_ = nullptr;
  Target target_;
  std::mutex mutex_;
  std::map<ProgramKey, std::unique_ptr<Program>> programs_;
};

}  // namespace ortconv::cuda

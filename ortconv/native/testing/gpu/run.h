// Carries out launches on the CPU: the text that NVRTC would get is compiled by the C++ compiler that built the tests
// (once per program; the result is kept beside them), and the threads of a block run as fibers that meet at barriers
// and warp-wide instructions.
//
// What the hardware leaves open is chosen by `Choices`, so that a result which depends on it is found out.
#pragma once

#include <string>
#include <vector>

#include "cuda/plan/plan.h"
#include "testing/emulator/runtime.h"
#include "testing/gpu/global_memory.h"

namespace ortconv::cuda::emulator {

struct Choices {
  unsigned order = 0;        // seeds the order in which threads and blocks run; 0: ascending
  bool late_copies = false;  // asynchronous copies happen when they are waited for, not at once
};

// What a launch's pointers mean, and all that the GPU's memory holds.
class Memory {
 public:
  // The caller keeps it.
  void set(Buffer buffer, void* data, size_t bytes, ptx::Content content) {
    addresses_[static_cast<int>(buffer)] = data;
    all_.add(data, bytes, content);
  }
  const void* address(Buffer buffer) const { return addresses_[static_cast<int>(buffer)]; }
  ptx::GlobalMemory& all() { return all_; }

 private:
  const void* addresses_[static_cast<int>(Buffer::kScratch) + 1] = {};
  ptx::GlobalMemory all_;
};

// Runs one launch. Throws Error where the program does not compile or breaks a rule of the machine: lanes of a warp at
// different instructions, a barrier that some threads never reach, a misaligned copy, limits on grid and block.
void run(const Launch& launch, int sm, Memory& memory, const Choices& choices);

// The same for any text with one kernel, compiled for a compute capability.
void run_text(const std::string& text, const std::vector<std::string>& options, int sm, const Launch& launch,
              ptx::GlobalMemory& memory, const Choices& choices);

}  // namespace ortconv::cuda::emulator

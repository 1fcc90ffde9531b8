// Carries out launches on the CPU: the text that NVRTC would get is compiled by the C++ compiler that built the tests
// (once per program; the result is kept beside them), and the threads of a block run as fibers that meet at barriers
// and warp-wide instructions.
//
// What the hardware leaves open is chosen by `Choices`, so that a result which depends on it is found out.
#pragma once

#include <map>
#include <string>

#include "cuda/emulator/runtime.h"
#include "cuda/plan.h"

namespace ortconv::cuda::emulator {

struct Choices {
  unsigned order = 0;        // seeds the order in which threads and blocks run; 0: ascending
  bool late_copies = false;  // asynchronous copies happen when they are waited for, not at once
};

struct Memory {
  const void* x = nullptr;
  const void* w = nullptr;
  void* packed = nullptr;
  const void* b = nullptr;
  const void* residual = nullptr;
  void* y = nullptr;
  void* scratch = nullptr;
};

// Runs one launch. Throws Error where the program does not compile or breaks a rule of the machine: lanes of a warp at
// different instructions, a barrier that some threads never reach, a misaligned copy, limits on grid and block.
void run(const Launch& launch, const Memory& memory, const Choices& choices);

// The same for any text with one kernel.
void run_text(const std::string& text, const std::vector<std::string>& options, const Launch& launch,
              const Choices& choices);

}  // namespace ortconv::cuda::emulator

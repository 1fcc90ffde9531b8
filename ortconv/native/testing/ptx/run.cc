// What the emulator does by translating the sources to C++, done by NVIDIA's compiler and an interpreter of its PTX.
#include "testing/gpu/run.h"

#include <algorithm>

#include "base/error.h"
#include "testing/ptx/compiler.h"
#include "testing/ptx/machine.h"

namespace ortconv::cuda::emulator {

// Copies always happen when they are waited for.
void run_text(const std::string& text, const std::vector<std::string>& options, int sm, const Launch& launch,
              ptx::GlobalMemory& memory, const Choices& choices) {
  ptx::Grid grid;
  std::copy(launch.grid, launch.grid + 3, grid.blocks);
  std::copy(launch.block, launch.block + 3, grid.threads);
  grid.shared_bytes = launch.shared_bytes;
  grid.params = launch.params;
  ptx::launch(ptx::compile(text, options, sm), launch.function, grid, memory, choices.order);
}

}  // namespace ortconv::cuda::emulator

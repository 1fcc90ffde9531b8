#include "testing/gpu/run.h"

#include <cstring>

#include "base/error.h"

namespace ortconv::cuda::emulator {

void run(const Launch& launch, int sm, Memory& memory, const Choices& choices) {
  Launch filled = launch;
  for (const Pointer& pointer : launch.pointers) {
    const char* const address = static_cast<const char*>(memory.address(pointer.buffer)) + pointer.offset;
    if (pointer.at + sizeof address > filled.params.size()) fail("a pointer lies outside of the parameters");
    std::memcpy(filled.params.data() + pointer.at, &address, sizeof address);
  }
  run_text(source_of(launch.program), launch.program.options, sm, filled, memory.all(), choices);
}

}  // namespace ortconv::cuda::emulator

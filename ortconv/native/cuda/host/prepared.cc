#include "cuda/host/prepared.h"

#include <cstring>

#include "cuda/host/error.h"

namespace ortconv::cuda {

Prepared::Prepared(Gpu& gpu, const std::vector<Launch>& launches) : driver_(&gpu.driver()) {
  for (const Launch& launch : launches) {
    if (launch.params.size() > kMaxParamBytes) {
      device_fail("function ", launch.function, " takes ", launch.params.size(), " bytes; allowed: up to ",
                  kMaxParamBytes, '.');
    }
    steps_.push_back({gpu.function(launch.program, launch.function, launch.shared_bytes), launch});
  }
}

void Prepared::run(const Addresses& addresses, Stream stream) const {
  for (const Step& step : steps_) {
    const Launch& launch = step.launch;
    alignas(16) unsigned char params[kMaxParamBytes];
    std::memcpy(params, launch.params.data(), launch.params.size());
    for (const Pointer& pointer : launch.pointers) {
      const void* const address = static_cast<const char*>(addresses[pointer.buffer]) + pointer.offset;
      std::memcpy(params + pointer.at, &address, sizeof address);
    }
    void* arguments[] = {params};
    driver_->check(driver_->cuLaunchKernel(step.function, launch.grid[0], launch.grid[1], launch.grid[2],
                                           launch.block[0], launch.block[1], launch.block[2],
                                           static_cast<unsigned>(launch.shared_bytes), stream, arguments, nullptr),
                   "cuLaunchKernel");
  }
}

}  // namespace ortconv::cuda

// Runs of a node on the GPU: what is kept of the sizes that it met.
#pragma once

#include <cstddef>
#include <memory>

#include "cuda/host/gpu.h"
#include "cuda/host/prepared.h"
#include "ops/conv_params.h"
#include "ort/abi/abi.h"
#include "ort/abi/device_memory.h"

namespace ortconv {

// A run of some sizes, ready to be enqueued.
struct ReadyRun {
  ReadyRun(cuda::Gpu& gpu, Shape output, const cuda::Plan& plan)
      : y(std::move(output)), scratch_bytes(plan.scratch_bytes), launches(gpu, plan.launches) {}

  Shape y;
  size_t scratch_bytes;
  cuda::Prepared launches;
};

// For how many different sizes a node keeps runs ready.
constexpr size_t kReadyRuns = 32;

// Makes Y and enqueues the run on the context's stream. `addresses` are those of its inputs, and of packed weights.
void enqueue(const OrtApi* api, OrtKernelContext* context, const ReadyRun& run, cuda::Addresses addresses,
             ScratchMemory* scratch);

}  // namespace ortconv

#include "ort/abi/cuda_run.h"

#include "ort/abi/boundary.h"
#include "ort/abi/tensors.h"

namespace ortconv {

void enqueue(const OrtApi* api, OrtKernelContext* context, const ReadyRun& run, cuda::Addresses addresses,
             ScratchMemory* scratch) {
  addresses[cuda::Buffer::kY] = data_of(api, make_output(api, context, run.y));
  void* stream = nullptr;
  invoke<abi::KernelContextGetGpuComputeStream>(api, static_cast<const OrtKernelContext*>(context), &stream);
  scratch->with_block(stream, run.scratch_bytes, [&](void* block) {
    addresses[cuda::Buffer::kScratch] = block;
    run.launches.run(addresses, static_cast<cuda::Stream>(stream));
  });
}

}  // namespace ortconv

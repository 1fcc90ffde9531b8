// What ONNX Runtime sees of every op of this library.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ort/abi/abi.h"
#include "ort/abi/boundary.h"
#include "ort/abi/kernel.h"

namespace ortconv {

constexpr const char* kDomain = "org.ortconv";

// An op of version 1 whose kernels are Kernels, with one output and a last input that is optional. What is left to
// fill: its name, its execution provider, its types and how many inputs there are, CreateKernelV2, and if shapes can be
// inferred InferOutputShapeFn.
struct CustomOp : OrtCustomOp {
  CustomOp() : OrtCustomOp() {
    version = abi::kCustomOpVersion;
    GetInputCharacteristic = [](const OrtCustomOp* self, size_t index) {
      return index + 1 == self->GetInputTypeCount(self) ? abi::kOptional : abi::kRequired;
    };
    GetInputMemoryType = [](const OrtCustomOp*, size_t) { return abi::kMemTypeDefault; };
    GetOutputTypeCount = [](const OrtCustomOp*) { return size_t{1}; };
    GetOutputCharacteristic = [](const OrtCustomOp*, size_t) { return abi::kRequired; };
    GetVariadicInputMinArity = [](const OrtCustomOp*) { return 0; };
    GetVariadicInputHomogeneity = [](const OrtCustomOp*) { return 0; };
    GetVariadicOutputMinArity = [](const OrtCustomOp*) { return 0; };
    GetVariadicOutputHomogeneity = [](const OrtCustomOp*) { return 0; };
    GetStartVersion = [](const OrtCustomOp*) { return 1; };
    GetEndVersion = [](const OrtCustomOp*) { return 1; };
    KernelComputeV2 = [](void* opaque, OrtKernelContext* context) {
      const auto* kernel = static_cast<const Kernel*>(opaque);
      return guarded(kernel->api(), kernel->subject(), [&] { kernel->compute(context); });
    };
    KernelDestroy = [](void* kernel) { delete static_cast<Kernel*>(kernel); };
  }
};

using CustomOps = std::vector<std::shared_ptr<const OrtCustomOp>>;

// The name of a node whose kernel is created; empty where it has none.
inline std::string name_of(const OrtApi* api, const OrtKernelInfo* info) {
  size_t size = 0;
  invoke<abi::KernelInfoGetNodeName>(api, info, nullptr, &size);
  std::string name(size, '\0');
  invoke<abi::KernelInfoGetNodeName>(api, info, &name[0], &size);
  name.resize(size - 1);
  return name;
}

// Creates a kernel by `make(subject)`, where the subject is how messages name the node:
// org.ortconv.TransposedConvolution 'up1'. `op_name` is the first part of that.
template <class Make>
OrtStatus* create_kernel(const std::string& op_name, const OrtApi* api, const OrtKernelInfo* info, void** kernel,
                         Make make) {
  std::string subject;
  OrtStatus* status = guarded(api, kDomain, [&] { subject = op_name + " '" + name_of(api, info) + "'"; });
  if (status != nullptr) return status;
  return guarded(api, subject, [&] { *kernel = make(subject).release(); });
}

// The same for an op of ours.
template <class Make>
OrtStatus* create_kernel(const OrtCustomOp* op, const OrtApi* api, const OrtKernelInfo* info, void** kernel,
                         Make make) {
  return create_kernel(std::string(kDomain) + "." + op->GetName(op), api, info, kernel, make);
}

}  // namespace ortconv

// The Fourier operators as ONNX Runtime sees them: ForwardSTFT, InverseSTFT, OverlapAdd and FourierTransform.
#pragma once

#include <memory>
#include <string>

#include "base/dtype.h"
#include "ort/abi/custom_op.h"
#include "ort/settings.h"

namespace ortconv {

enum class FourierOp { kForward, kInverse, kOverlapAdd, kTransform };
constexpr FourierOp kFourierOps[] = {FourierOp::kForward, FourierOp::kInverse, FourierOp::kOverlapAdd,
                                     FourierOp::kTransform};

// A node as ONNX Runtime asks for its kernel.
struct FourierCreation {
  const OrtApi* api;
  const OrtKernelInfo* info;
  FourierOp op;
  DataType dtype;
  std::string subject;  // how messages name the node
};

// Both read and check the attributes, and make the plan of a transform whose length is known. The CUDA kernel also
// compiles what a run needs when all sizes are known.
std::unique_ptr<Kernel> make_fourier_kernel(const FourierCreation& creation);
std::unique_ptr<Kernel> make_cuda_fourier_kernel(const FourierCreation& creation);

// The element types, for every provider.
constexpr DataType kFourierTypes[] = {DataType::kFloat, DataType::kDouble, DataType::kFloat16, DataType::kBfloat16};

// One for each op, provider that has kernels and element type. Empty where the settings leave these nodes to their
// function bodies.
CustomOps fourier_ops(const OrtApi* api, const Settings& settings);

}  // namespace ortconv

// MatMul with weight-only quantization as ONNX Runtime sees it: MatMulCompressed and GatherMatMulCompressed, and with a
// codebook MatMulCodebook and GatherMatMulCodebook.
#pragma once

#include <memory>
#include <string>

#include "base/dtype.h"
#include "kernels/matmul_nbits/matmul_nbits.h"
#include "ort/abi/custom_op.h"
#include "ort/settings.h"

namespace ortconv {

struct MatMulOp {
  bool gathers, has_codebook;
};
constexpr MatMulOp kMatMulOps[] = {{false, false}, {true, false}, {false, true}, {true, true}};

// A node as ONNX Runtime asks for its kernel.
struct MatMulCreation {
  const OrtApi* api;
  const OrtKernelInfo* info;
  MatMulOp op;
  DataType dtype;
  kernels::Code code;
  Settings settings;
  std::string subject;  // how messages name the node
};

// Both read and check the attributes. The CUDA kernel also compiles what a run needs when all sizes are known.
std::unique_ptr<Kernel> make_matmul_kernel(const MatMulCreation& creation);
std::unique_ptr<Kernel> make_cuda_matmul_kernel(const MatMulCreation& creation);

// The element types of X and Y, for every provider.
constexpr DataType kMatMulTypes[] = {DataType::kFloat, DataType::kFloat16, DataType::kBfloat16};

// One for each op, provider that has kernels, element type of X and element type of the weights. Empty where the
// settings leave these nodes to their function bodies.
CustomOps matmul_ops(const OrtApi* api, const Settings& settings);

}  // namespace ortconv

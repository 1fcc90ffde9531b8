// The inputs of the ops: X, W, output_shape (TransposedConvolutionToShape) or R (TransposedConvolutionAdd), and an
// optional B.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "ops/conv_params.h"
#include "ort/abi.h"

namespace ortconv {

struct InputIndices {
  size_t x = 0, w = 1, output_shape = 2, residual = 2, b;

  explicit InputIndices(ConvOp op)
      : b(op == ConvOp::kConvTransposeToShape || op == ConvOp::kConvTransposeAdd ? 3 : 2) {}
};

// Those of a run; null where the node has none. Throws Error when ONNX Runtime reports one, as everything here.
struct Inputs {
  const OrtValue* x;
  const OrtValue* w;
  const OrtValue* output_shape;
  const OrtValue* residual;
  const OrtValue* b;

  Inputs(const OrtApi* api, const OrtKernelContext* context, ConvOp op);
};

// The elements of an output_shape, which lies in memory of the host.
std::vector<int64_t> output_shape_of(const OrtApi* api, const OrtValue* tensor);

// An input that never changes; null if there is none at this index.
const OrtValue* constant_input(const OrtApi* api, const OrtKernelInfo* info, size_t index);

// The shape that an input always has, as far as ONNX Runtime knows when it creates the kernel.
std::optional<Shape> known_shape(const OrtApi* api, const OrtKernelInfo* info, size_t index);

}  // namespace ortconv

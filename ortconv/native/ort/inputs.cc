#include "ort/inputs.h"

#include <algorithm>
#include <memory>

#include "base/error.h"
#include "ort/boundary.h"
#include "ort/tensors.h"

namespace ortconv {

Inputs::Inputs(const OrtApi* api, const OrtKernelContext* context, ConvOp op) {
  const InputIndices at(op);
  size_t count = 0;
  invoke<abi::KernelContextGetInputCount>(api, context, &count);
  const auto input = [&](size_t index) {
    const OrtValue* value = nullptr;
    if (index < count) invoke<abi::KernelContextGetInput>(api, context, index, &value);
    return value;
  };
  x = input(at.x);
  w = input(at.w);
  output_shape = op == ConvOp::kConvTransposeToShape ? input(at.output_shape) : nullptr;
  residual = op == ConvOp::kConvTransposeAdd ? input(at.residual) : nullptr;
  b = input(at.b);
}

std::vector<int64_t> output_shape_of(const OrtApi* api, const OrtValue* tensor) {
  const Shape shape = shape_of(api, tensor);
  if (shape.size() != 1) fail("input output_shape has shape ", to_string(shape), "; allowed: rank 1.");
  const auto* values = static_cast<const int64_t*>(data_of(api, tensor));
  return std::vector<int64_t>(values, values + shape[0]);
}

const OrtValue* constant_input(const OrtApi* api, const OrtKernelInfo* info, size_t index) {
  int is_constant = 0;
  const OrtValue* value = nullptr;
  invoke<abi::KernelInfoGetConstantInput>(api, info, index, &is_constant, &value);
  return is_constant != 0 ? value : nullptr;
}

std::optional<Shape> known_shape(const OrtApi* api, const OrtKernelInfo* info, size_t index) {
  OrtTypeInfo* raw = nullptr;
  invoke<abi::KernelInfoGetInputTypeInfo>(api, info, index, &raw);
  const auto release = [api](OrtTypeInfo* type) { abi::ReleaseTypeInfo::call(api, type); };
  const std::unique_ptr<OrtTypeInfo, decltype(release)> type(raw, release);
  const OrtTensorTypeAndShapeInfo* tensor = nullptr;
  invoke<abi::CastTypeInfoToTensorInfo>(api, static_cast<const OrtTypeInfo*>(raw), &tensor);
  if (tensor == nullptr) return std::nullopt;
  size_t rank = 0;
  invoke<abi::GetDimensionsCount>(api, tensor, &rank);
  Shape shape(rank);
  invoke<abi::GetDimensions>(api, tensor, shape.data(), rank);
  // A tensor of unknown rank has no dims here; ours all have some.
  if (rank == 0 || std::any_of(shape.begin(), shape.end(), [](int64_t size) { return size < 0; })) return std::nullopt;
  return shape;
}

}  // namespace ortconv

#include "ort/abi/infer_shape.h"

#include <memory>

#include "ort/abi/boundary.h"

namespace ortconv {

InputShape::InputShape(const OrtApi* api, const OrtShapeInferContext* context, size_t index) {
  OrtTensorTypeAndShapeInfo* info = nullptr;  // owned by the context
  invoke<abi::ShapeInferGetInputTypeShape>(api, context, index, &info);
  size_t rank = 0;
  invoke<abi::GetTensorElementType>(api, info, &type);
  invoke<abi::GetDimensionsCount>(api, info, &rank);
  dims.resize(rank);
  names.resize(rank);
  invoke<abi::GetDimensions>(api, info, dims.data(), rank);
  invoke<abi::GetSymbolicDimensions>(api, info, names.data(), rank);
}

void set_output(const OrtApi* api, OrtShapeInferContext* context, int type, const Shape& dims,
                std::vector<const char*> symbols) {
  OrtTensorTypeAndShapeInfo* raw = nullptr;
  invoke<abi::CreateTensorTypeAndShapeInfo>(api, &raw);
  const auto release = [api](OrtTensorTypeAndShapeInfo* info) { abi::ReleaseTensorTypeAndShapeInfo::call(api, info); };
  const std::unique_ptr<OrtTensorTypeAndShapeInfo, decltype(release)> info(raw, release);
  invoke<abi::SetTensorElementType>(api, info.get(), type);
  invoke<abi::SetDimensions>(api, info.get(), dims.data(), dims.size());
  invoke<abi::SetSymbolicDimensions>(api, info.get(), symbols.data(), symbols.size());
  invoke<abi::ShapeInferSetOutputTypeShape>(api, context, size_t{0}, info.get());
}

}  // namespace ortconv

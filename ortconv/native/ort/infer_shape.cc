#include "ort/infer_shape.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "base/error.h"
#include "ort/attributes.h"
#include "ort/boundary.h"
#include "ort/integer_conv_inputs.h"
#include "ort/product_inputs.h"

namespace ortconv {
namespace {

struct InputShape {
  int type = 0;
  Shape dims;                      // negative where unknown
  std::vector<const char*> names;  // null or empty where a dim has no symbolic name

  InputShape(const OrtApi* api, const OrtShapeInferContext* context, size_t index) {
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

  bool has_name(size_t axis) const { return names[axis] != nullptr && names[axis][0] != '\0'; }
};

DataType data_type(int type) {
  const auto* found = std::find(std::begin(kDataTypes), std::end(kDataTypes), static_cast<DataType>(type));
  if (found == std::end(kDataTypes)) fail("element type ", type, " is not one of ours.");
  return *found;
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

// Of a convolution with checked attributes.
void infer_conv_shape(const OrtApi* api, const ConvAttributes& attributes, const InputShape& x, const InputShape& w,
                      int result, OrtShapeInferContext* context) {
  ConvProblem problem = weight_problem(attributes, w.dims);
  Shape x_dims = x.dims;
  const char* batch_name = nullptr;
  const auto batch_axis = static_cast<size_t>(attributes.x_perm[0]);
  if (batch_axis < x_dims.size() && x.has_name(batch_axis)) {
    batch_name = x.names[batch_axis];
    x_dims[batch_axis] = 1;  // any size will do
  }
  complete_problem(attributes, x_dims, nullptr, nullptr, &problem);

  const Shape y = output_dims(attributes, problem);
  std::vector<const char*> names(y.size(), "");
  for (size_t i = 0; batch_name != nullptr && i < y.size(); ++i) {
    if (attributes.y_perm[i] == 0) names[i] = batch_name;
  }

  set_output(api, context, result, y, names);
}

}  // namespace

void infer_shape(const OrtApi* api, ConvOp op, OrtShapeInferContext* context) {
  const InputShape x(api, context, 0), w(api, context, 1);
  const ConvAttributes attributes = read_attributes(op, InferenceAttributes(api, context));
  check_attributes(attributes, data_type(x.type));
  infer_conv_shape(api, attributes, x, w, x.type, context);
}

void infer_integer_conv_shape(const OrtApi* api, OrtShapeInferContext* context) {
  const InputShape x(api, context, IntegerConvInputs::kX), w(api, context, IntegerConvInputs::kW);
  infer_conv_shape(api, integer_conv_attributes(InferenceAttributes(api, context)), x, w,
                   static_cast<int>(DataType::kFloat), context);
}

void infer_product_shape(const OrtApi* api, ProductOp op, OrtShapeInferContext* context) {
  const InputShape x(api, context, ProductIndices::kX), data(api, context, ProductIndices::kData);
  const InputShape& rows = op.gathers ? InputShape(api, context, ProductIndices::kIndex) : x;
  if (rows.dims.size() < 2 || data.dims.size() != (op.gathers ? 3 : 2)) fail("other axes are wanted.");
  Shape y = rows.dims;
  if (!op.gathers) y.pop_back();
  std::vector<const char*> names(y.size() + 1, "");
  for (size_t i = 0; i < y.size(); ++i) {
    if (y[i] >= 0) continue;
    if (!rows.has_name(i)) fail("a size is not known.");
    names[i] = rows.names[i];
  }
  y.push_back(data.dims[data.dims.size() - 2]);
  if (y.back() < 0) fail("a size is not known.");
  set_output(api, context, x.type, y, std::move(names));
}

}  // namespace ortconv

#include "ort/conv_integer_to_float/op.h"

#include <string>

#include "ort/abi/custom_op.h"
#include "ort/abi/infer_shape.h"
#include "ort/conv_integer_to_float/inputs.h"
#include "ort/convolution/inputs.h"
#include "ort/providers.h"

namespace ortconv {
namespace {

constexpr DataType kIntegers[] = {DataType::kUint8, DataType::kInt8};

void infer_integer_conv_shape(const OrtApi* api, OrtShapeInferContext* context) {
  const InputShape x(api, context, IntegerConvInputs::kX), w(api, context, IntegerConvInputs::kW);
  infer_conv_shape(api, integer_conv_attributes(InferenceAttributes(api, context)), x, w,
                   static_cast<int>(DataType::kFloat), context);
}

struct IntegerConvCustomOp : CustomOp {
  const OrtApi* api;
  const Provider& provider;
  DataType x, w;

  IntegerConvCustomOp(const OrtApi* ort_api, const Provider& executor, DataType x_type, DataType w_type)
      : api(ort_api), provider(executor), x(x_type), w(w_type) {
    GetName = [](const OrtCustomOp*) { return "ConvIntegerToFloat"; };
    GetExecutionProviderType = [](const OrtCustomOp* self) { return of(self).provider.name; };
    GetInputTypeCount = [](const OrtCustomOp*) { return IntegerConvInputs::kCount; };
    GetInputType = [](const OrtCustomOp* self, size_t index) {
      const bool is_x = index == IntegerConvInputs::kX || index == IntegerConvInputs::kXZero;
      const bool is_w = index == IntegerConvInputs::kW || index == IntegerConvInputs::kWZero;
      return static_cast<int>(is_x ? of(self).x : is_w ? of(self).w : DataType::kFloat);
    };
    GetInputCharacteristic = [](const OrtCustomOp*, size_t index) {
      return index < IntegerConvInputs::kRequired ? abi::kRequired : abi::kOptional;
    };
    GetOutputType = [](const OrtCustomOp*, size_t) { return static_cast<int>(DataType::kFloat); };
    CreateKernelV2 = [](const OrtCustomOp* self, const OrtApi* ort, const OrtKernelInfo* info, void** kernel) {
      return create_kernel(self, ort, info, kernel, [&](const std::string& subject) {
        return of(self).provider.make_integer_conv({ort, info, of(self).x, of(self).w, subject});
      });
    };
    InferOutputShapeFn = [](const OrtCustomOp* self, OrtShapeInferContext* context) -> OrtStatus* {
      return try_infer([&] { infer_integer_conv_shape(of(self).api, context); });
    };
  }

  static const IntegerConvCustomOp& of(const OrtCustomOp* self) {
    return *static_cast<const IntegerConvCustomOp*>(self);
  }
};

}  // namespace

CustomOps conv_integer_ops(const OrtApi* api, const Settings&) {
  CustomOps ops;
  for (const Provider& provider : providers()) {
    if (provider.make_integer_conv == nullptr) continue;
    for (const DataType x : kIntegers) {
      for (const DataType w : kIntegers) ops.push_back(std::make_shared<IntegerConvCustomOp>(api, provider, x, w));
    }
  }
  return ops;
}

}  // namespace ortconv

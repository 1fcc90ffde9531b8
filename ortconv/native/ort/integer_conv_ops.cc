#include "ort/integer_conv_ops.h"

#include <string>

#include "ort/custom_op.h"
#include "ort/infer_shape.h"
#include "ort/integer_conv_inputs.h"
#include "ort/providers.h"

namespace ortconv {
namespace {

constexpr DataType kIntegers[] = {DataType::kUint8, DataType::kInt8};

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
      try {
        infer_integer_conv_shape(of(self).api, context);
      } catch (...) {
        // Not inferred: allowed, and the run tells what is wrong, if anything is.
      }
      return nullptr;
    };
  }

  static const IntegerConvCustomOp& of(const OrtCustomOp* self) {
    return *static_cast<const IntegerConvCustomOp*>(self);
  }
};

}  // namespace

std::vector<std::shared_ptr<const OrtCustomOp>> integer_conv_ops(const OrtApi* api) {
  std::vector<std::shared_ptr<const OrtCustomOp>> ops;
  for (const Provider& provider : providers()) {
    if (provider.make_integer_conv == nullptr) continue;
    for (const DataType x : kIntegers) {
      for (const DataType w : kIntegers) ops.push_back(std::make_shared<IntegerConvCustomOp>(api, provider, x, w));
    }
  }
  return ops;
}

}  // namespace ortconv

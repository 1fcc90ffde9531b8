#include "ort/quantized_convolution/op.h"

#include <iterator>
#include <string>
#include <vector>

#include "ort/abi/custom_op.h"
#include "ort/abi/infer_shape.h"
#include "ort/convolution/inputs.h"
#include "ort/providers.h"

namespace ortconv {
namespace {

constexpr QuantizedOp kOps[] = {QuantizedOp::kToFloat, QuantizedOp::kQuantized, QuantizedOp::kQuantizedAdd,
                                QuantizedOp::kAffine};
constexpr DataType kIntegers[] = {DataType::kUint8, DataType::kInt8};

const char* name_of(QuantizedOp op) {
  switch (op) {
    case QuantizedOp::kToFloat:
      return "TransposedConvolutionIntegerToFloat";
    case QuantizedOp::kQuantizedAdd:
      return "QLinearTransposedConvolutionAdd";
    case QuantizedOp::kAffine:
      return "QLinearConvolution";
    case QuantizedOp::kQuantized:
      break;
  }
  return "QLinearTransposedConvolution";
}

std::vector<DataType> results_of(QuantizedOp op) {
  if (op == QuantizedOp::kToFloat) return {DataType::kFloat};
  return {std::begin(kIntegers), std::end(kIntegers)};
}

struct QuantizedCustomOp : CustomOp {
  const OrtApi* api;
  const Provider& provider;
  QuantizedOp op;
  DataType x, w, y;
  Settings settings;

  QuantizedCustomOp(const OrtApi* ort_api, const Provider& executor, QuantizedOp which, DataType x_type,
                    DataType w_type, DataType y_type, const Settings& configuration)
      : api(ort_api), provider(executor), op(which), x(x_type), w(w_type), y(y_type), settings(configuration) {
    GetName = [](const OrtCustomOp* self) { return name_of(of(self).op); };
    GetExecutionProviderType = [](const OrtCustomOp* self) { return of(self).provider.name; };
    GetInputTypeCount = [](const OrtCustomOp* self) { return QuantizedInputs::count(of(self).op); };
    GetInputType = [](const OrtCustomOp* self, size_t index) { return static_cast<int>(of(self).type_of(index)); };
    GetInputCharacteristic = [](const OrtCustomOp*, size_t) { return abi::kRequired; };
    GetOutputType = [](const OrtCustomOp* self, size_t) { return static_cast<int>(of(self).y); };
    CreateKernelV2 = [](const OrtCustomOp* self, const OrtApi* ort, const OrtKernelInfo* info, void** kernel) {
      return create_kernel(self, ort, info, kernel, [&](const std::string& subject) {
        const QuantizedCustomOp& custom = of(self);
        return custom.provider.make_quantized(
            {ort, info, custom.op, custom.x, custom.w, custom.y, custom.settings, subject});
      });
    };
    InferOutputShapeFn = [](const OrtCustomOp* self, OrtShapeInferContext* context) {
      return try_infer([&] {
        const InputShape data(of(self).api, context, QuantizedInputs::kX);
        const InputShape weights(of(self).api, context, QuantizedInputs::kW);
        // As it is in this model: every op of this name is asked, whatever its types.
        int result = static_cast<int>(DataType::kFloat);
        if (of(self).op != QuantizedOp::kToFloat) {
          result = InputShape(of(self).api, context, QuantizedInputs::kYZero).type;
        }
        infer_conv_shape(of(self).api, quantized_attributes(InferenceAttributes(of(self).api, context), of(self).op),
                         data, weights, result, context);
      });
    };
  }

  static const QuantizedCustomOp& of(const OrtCustomOp* self) { return *static_cast<const QuantizedCustomOp*>(self); }

  DataType type_of(size_t index) const {
    switch (index) {
      case QuantizedInputs::kX:
      case QuantizedInputs::kXZero:
        return x;
      case QuantizedInputs::kYZero:
        return y;
      case QuantizedInputs::kR:
      case QuantizedInputs::kRZero:
        return op == QuantizedOp::kQuantizedAdd ? y : DataType::kFloat;
      case QuantizedInputs::kW:
      case QuantizedInputs::kWZero:
        return w;
      default:
        return DataType::kFloat;
    }
  }
};

}  // namespace

CustomOps quantized_ops(const OrtApi* api, const Settings& settings) {
  CustomOps ops;
  for (const Provider& provider : providers()) {
    if (provider.make_quantized == nullptr) continue;
    for (const QuantizedOp op : kOps) {
      for (const DataType x : kIntegers) {
        for (const DataType w : kIntegers) {
          for (const DataType y : results_of(op)) {
            ops.push_back(std::make_shared<QuantizedCustomOp>(api, provider, op, x, w, y, settings));
          }
        }
      }
    }
  }
  return ops;
}

}  // namespace ortconv

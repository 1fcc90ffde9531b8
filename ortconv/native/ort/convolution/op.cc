#include "ort/convolution/op.h"

#include <algorithm>
#include <iterator>

#include "base/error.h"
#include "ort/abi/infer_shape.h"
#include "ort/convolution/inputs.h"
#include "ort/providers.h"

namespace ortconv {
namespace {

constexpr ConvOp kOps[] = {ConvOp::kConvTranspose, ConvOp::kConvTransposeToShape, ConvOp::kConv,
                           ConvOp::kConvTransposeAdd};

const char* name_of(ConvOp op) {
  switch (op) {
    case ConvOp::kConvTransposeToShape:
      return "TransposedConvolutionToShape";
    case ConvOp::kConv:
      return "Convolution";
    case ConvOp::kConvTransposeAdd:
      return "TransposedConvolutionAdd";
    case ConvOp::kConvTranspose:
      break;
  }
  return "TransposedConvolution";
}

DataType data_type(int type) {
  const auto* found = std::find(std::begin(kDataTypes), std::end(kDataTypes), static_cast<DataType>(type));
  if (found == std::end(kDataTypes)) fail("element type ", type, " is not one of ours.");
  return *found;
}

void infer_shape(const OrtApi* api, ConvOp op, OrtShapeInferContext* context) {
  const InputShape x(api, context, 0), w(api, context, 1);
  const ConvAttributes attributes = read_attributes(op, InferenceAttributes(api, context));
  check_attributes(attributes, data_type(x.type));
  infer_conv_shape(api, attributes, x, w, x.type, context);
}

// One op of the convolution family with one element type on one execution provider.
struct ConvCustomOp : CustomOp {
  const OrtApi* api;
  const Provider& provider;
  ConvOp op;
  DataType dtype;
  Settings settings;

  ConvCustomOp(const OrtApi* ort_api, const Provider& executor, ConvOp which, DataType type,
               const Settings& configuration)
      : api(ort_api), provider(executor), op(which), dtype(type), settings(configuration) {
    GetName = [](const OrtCustomOp* self) { return name_of(of(self).op); };
    GetExecutionProviderType = [](const OrtCustomOp* self) { return of(self).provider.name; };
    GetInputTypeCount = [](const OrtCustomOp* self) { return ConvIndices(of(self).op).b + 1; };
    GetInputType = [](const OrtCustomOp* self, size_t index) {
      return static_cast<int>(of(self).is_output_shape(index) ? DataType::kInt64 : of(self).dtype);
    };
    GetInputMemoryType = [](const OrtCustomOp* self, size_t index) {
      return of(self).is_output_shape(index) ? abi::kMemTypeCpuInput : abi::kMemTypeDefault;
    };
    GetOutputType = [](const OrtCustomOp* self, size_t) { return static_cast<int>(of(self).dtype); };
    CreateKernelV2 = [](const OrtCustomOp* self, const OrtApi* ort, const OrtKernelInfo* info, void** kernel) {
      return create_kernel(self, ort, info, kernel, [&](const std::string& subject) {
        const ConvCustomOp& custom = of(self);
        return custom.provider.make_conv({ort, info, custom.op, custom.dtype, custom.settings, subject});
      });
    };
    // The output sizes of TransposedConvolutionToShape are data, which shape inference does not see.
    if (op != ConvOp::kConvTransposeToShape) {
      InferOutputShapeFn = [](const OrtCustomOp* self, OrtShapeInferContext* context) {
        return try_infer([&] { infer_shape(of(self).api, of(self).op, context); });
      };
    }
  }

  static const ConvCustomOp& of(const OrtCustomOp* self) { return *static_cast<const ConvCustomOp*>(self); }

  bool is_output_shape(size_t index) const {
    return op == ConvOp::kConvTransposeToShape && index == ConvIndices(op).output_shape;
  }
};

}  // namespace

CustomOps conv_ops(const OrtApi* api, const Settings& settings) {
  CustomOps ops;
  for (const ConvOp op : kOps) {
    for (const Provider& provider : providers()) {
      for (const DataType dtype : provider.dtypes) {
        ops.push_back(std::make_shared<ConvCustomOp>(api, provider, op, dtype, settings));
      }
    }
  }
  return ops;
}

}  // namespace ortconv

#include "ort/fourier/op.h"

#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "ort/abi/custom_op.h"
#include "ort/abi/infer_shape.h"
#include "ort/fourier/inputs.h"
#include "ort/providers.h"

namespace ortconv {
namespace {

const char* name_of(FourierOp op) {
  switch (op) {
    case FourierOp::kForward:
      return "ForwardSTFT";
    case FourierOp::kInverse:
      return "InverseSTFT";
    case FourierOp::kOverlapAdd:
      return "OverlapAdd";
    case FourierOp::kTransform:
      break;
  }
  return "FourierTransform";
}

// The batch alone may be symbolic. Inputs that are absent have no type.
void infer_stft_shape(const OrtApi* api, FourierOp op, OrtShapeInferContext* context) {
  const InputShape data(api, context, FourierIndices::kData), window(api, context, FourierIndices::kWindow);
  StftShapes shapes{data.dims, window.dims, std::nullopt, std::nullopt};
  if (op != FourierOp::kOverlapAdd) shapes.gains = InputShape(api, context, FourierIndices::kGains).dims;
  const StftAttributes attributes = stft_attributes(op, InferenceAttributes(api, context));
  if (data.dims.size() != 3 || data.dims[2] < 0) fail("a size is not known.");
  if (op == FourierOp::kInverse && shapes.gains->size() == 1 && data.dims[1] * 2 == shapes.gains->front()) {
    shapes.sines = shapes.data;
  }
  Shape y = stft_run(op, attributes, shapes).y;
  y[0] = data.dims[0];
  std::vector<const char*> names(y.size(), "");
  if (y[0] < 0) {
    if (!data.has_name(0)) fail("a size is not known.");
    names[0] = data.names[0];
  }
  set_output(api, context, data.type, y, std::move(names));
}

struct FourierCustomOp : CustomOp {
  const OrtApi* api;
  const Provider& provider;
  FourierOp op;
  DataType dtype;

  FourierCustomOp(const OrtApi* ort_api, const Provider& executor, FourierOp which, DataType floats)
      : api(ort_api), provider(executor), op(which), dtype(floats) {
    GetName = [](const OrtCustomOp* self) { return name_of(of(self).op); };
    GetExecutionProviderType = [](const OrtCustomOp* self) { return of(self).provider.name; };
    GetInputTypeCount = [](const OrtCustomOp* self) { return FourierIndices::count(of(self).op); };
    // The length decides the shape of the result.
    GetInputMemoryType = [](const OrtCustomOp* self, size_t index) {
      return of(self).is_length(index) ? abi::kMemTypeCpuInput : abi::kMemTypeDefault;
    };
    GetInputType = [](const OrtCustomOp* self, size_t index) {
      return static_cast<int>(of(self).is_length(index) ? DataType::kInt64 : of(self).dtype);
    };
    GetInputCharacteristic = [](const OrtCustomOp* self, size_t index) {
      return FourierIndices::is_optional(of(self).op, index) ? abi::kOptional : abi::kRequired;
    };
    GetOutputType = [](const OrtCustomOp* self, size_t) { return static_cast<int>(of(self).dtype); };
    CreateKernelV2 = [](const OrtCustomOp* self, const OrtApi* ort, const OrtKernelInfo* info, void** kernel) {
      return create_kernel(self, ort, info, kernel, [&](const std::string& subject) {
        return of(self).provider.make_fourier({ort, info, of(self).op, of(self).dtype, subject});
      });
    };
    if (op == FourierOp::kTransform) return;  // the length may be known to a run alone
    InferOutputShapeFn = [](const OrtCustomOp* self, OrtShapeInferContext* context) -> OrtStatus* {
      return try_infer([&] { infer_stft_shape(of(self).api, of(self).op, context); });
    };
  }

  bool is_length(size_t index) const { return op == FourierOp::kTransform && index == FourierIndices::kLength; }

  static const FourierCustomOp& of(const OrtCustomOp* self) { return *static_cast<const FourierCustomOp*>(self); }
};

}  // namespace

CustomOps fourier_ops(const OrtApi* api, const Settings& settings) {
  CustomOps ops;
  if (!settings.fourier_operators) return ops;
  for (const Provider& provider : providers()) {
    if (provider.make_fourier == nullptr) continue;
    for (const FourierOp op : kFourierOps) {
      for (const DataType dtype : kFourierTypes) {
        ops.push_back(std::make_shared<FourierCustomOp>(api, provider, op, dtype));
      }
    }
  }
  return ops;
}

}  // namespace ortconv

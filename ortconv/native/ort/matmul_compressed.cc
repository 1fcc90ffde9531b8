#include "ort/matmul_compressed.h"

#include <string>

#include "kernels/compressed/compressed.h"
#include "ort/custom_op.h"
#include "ort/infer_shape.h"
#include "ort/product_inputs.h"
#include "ort/providers.h"

namespace ortconv {
namespace {

// A type of integers, numbered as in ONNX's TensorProto.DataType.
struct CodeType {
  int number;
  kernels::Code code;
};
constexpr CodeType kCodeTypes[] = {
    {2, kernels::Code::kU8}, {3, kernels::Code::kS8}, {21, kernels::Code::kU4}, {22, kernels::Code::kS4}};

struct MatMulCompressedOp : CustomOp {
  const OrtApi* api;
  const Provider& provider;
  DataType dtype;
  CodeType codes;
  Settings settings;

  MatMulCompressedOp(const OrtApi* ort_api, const Provider& executor, DataType floats, CodeType integers,
                     const Settings& configuration)
      : api(ort_api), provider(executor), dtype(floats), codes(integers), settings(configuration) {
    GetName = [](const OrtCustomOp*) { return "MatMulCompressed"; };
    GetExecutionProviderType = [](const OrtCustomOp* self) { return of(self).provider.name; };
    GetInputTypeCount = [](const OrtCustomOp*) { return ProductIndices::kCount; };
    GetInputType = [](const OrtCustomOp* self, size_t index) {
      const bool is_float = index == ProductIndices::kX || index == ProductIndices::kScale;
      return is_float ? static_cast<int>(of(self).dtype) : of(self).codes.number;
    };
    GetOutputType = [](const OrtCustomOp* self, size_t) { return static_cast<int>(of(self).dtype); };
    CreateKernelV2 = [](const OrtCustomOp* self, const OrtApi* ort, const OrtKernelInfo* info, void** kernel) {
      return create_kernel(self, ort, info, kernel, [&](const std::string& subject) {
        const MatMulCompressedOp& custom = of(self);
        return custom.provider.make_product({ort, info, custom.dtype, custom.codes.code, custom.settings, subject});
      });
    };
    InferOutputShapeFn = [](const OrtCustomOp* self, OrtShapeInferContext* context) -> OrtStatus* {
      try {
        infer_product_shape(of(self).api, context);
      } catch (...) {
        // Not inferred: allowed, and the run tells what is wrong, if anything is.
      }
      return nullptr;
    };
  }

  static const MatMulCompressedOp& of(const OrtCustomOp* self) { return *static_cast<const MatMulCompressedOp*>(self); }
};

}  // namespace

std::vector<std::shared_ptr<const OrtCustomOp>> matmul_compressed_ops(const OrtApi* api, const Settings& settings) {
  std::vector<std::shared_ptr<const OrtCustomOp>> ops;
  for (const Provider& provider : providers()) {
    if (provider.make_product == nullptr) continue;
    for (const DataType dtype : kProductTypes) {
      for (const CodeType& type : kCodeTypes) {
        ops.push_back(std::make_shared<MatMulCompressedOp>(api, provider, dtype, type, settings));
      }
    }
  }
  return ops;
}

}  // namespace ortconv

#include "ort/product_ops.h"

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
constexpr CodeType kIntegers[] = {
    {2, kernels::Code::kU8}, {3, kernels::Code::kS8}, {21, kernels::Code::kU4}, {22, kernels::Code::kS4}};
constexpr CodeType kCodes = {21, kernels::Code::kTable};

const char* name_of(ProductOp op) {
  if (op.has_codebook) return op.gathers ? "GatherMatMulCodebook" : "MatMulCodebook";
  return op.gathers ? "GatherMatMulCompressed" : "MatMulCompressed";
}

struct ProductCustomOp : CustomOp {
  const OrtApi* api;
  const Provider& provider;
  ProductOp op;
  DataType dtype;
  CodeType codes;
  Settings settings;

  ProductCustomOp(const OrtApi* ort_api, const Provider& executor, ProductOp which, DataType floats, CodeType integers,
                  const Settings& configuration)
      : api(ort_api), provider(executor), op(which), dtype(floats), codes(integers), settings(configuration) {
    GetName = [](const OrtCustomOp* self) { return name_of(of(self).op); };
    GetExecutionProviderType = [](const OrtCustomOp* self) { return of(self).provider.name; };
    GetInputTypeCount = [](const OrtCustomOp* self) { return ProductIndices(of(self).op).last + 1; };
    GetInputType = [](const OrtCustomOp* self, size_t index) {
      const ProductIndices indices(of(self).op);
      if (index == indices.kX || index == indices.kScale) return static_cast<int>(of(self).dtype);
      if (index == indices.last && of(self).op.has_codebook) return static_cast<int>(DataType::kFloat);
      const bool is_code = index == indices.kData || index == indices.last;
      return is_code ? of(self).codes.number : static_cast<int>(DataType::kInt64);
    };
    if (op.has_codebook) GetInputCharacteristic = [](const OrtCustomOp*, size_t) { return abi::kRequired; };
    GetOutputType = [](const OrtCustomOp* self, size_t) { return static_cast<int>(of(self).dtype); };
    CreateKernelV2 = [](const OrtCustomOp* self, const OrtApi* ort, const OrtKernelInfo* info, void** kernel) {
      return create_kernel(self, ort, info, kernel, [&](const std::string& subject) {
        const ProductCustomOp& custom = of(self);
        return custom.provider.make_product(
            {ort, info, custom.op, custom.dtype, custom.codes.code, custom.settings, subject});
      });
    };
    InferOutputShapeFn = [](const OrtCustomOp* self, OrtShapeInferContext* context) -> OrtStatus* {
      try {
        infer_product_shape(of(self).api, of(self).op, context);
      } catch (...) {
        // Not inferred: allowed, and the run tells what is wrong, if anything is.
      }
      return nullptr;
    };
  }

  static const ProductCustomOp& of(const OrtCustomOp* self) { return *static_cast<const ProductCustomOp*>(self); }
};

}  // namespace

std::vector<std::shared_ptr<const OrtCustomOp>> product_ops(const OrtApi* api, const Settings& settings) {
  std::vector<std::shared_ptr<const OrtCustomOp>> ops;
  for (const Provider& provider : providers()) {
    if (provider.make_product == nullptr) continue;
    for (const ProductOp op : kProductOps) {
      for (const DataType dtype : kProductTypes) {
        if (op.has_codebook) {
          ops.push_back(std::make_shared<ProductCustomOp>(api, provider, op, dtype, kCodes, settings));
          continue;
        }
        for (const CodeType& type : kIntegers) {
          ops.push_back(std::make_shared<ProductCustomOp>(api, provider, op, dtype, type, settings));
        }
      }
    }
  }
  return ops;
}

}  // namespace ortconv

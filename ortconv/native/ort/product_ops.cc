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
constexpr CodeType kCodeTypes[] = {
    {2, kernels::Code::kU8}, {3, kernels::Code::kS8}, {21, kernels::Code::kU4}, {22, kernels::Code::kS4}};

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
    GetName = [](const OrtCustomOp* self) {
      return of(self).op == ProductOp::kGather ? "GatherMatMulCompressed" : "MatMulCompressed";
    };
    GetExecutionProviderType = [](const OrtCustomOp* self) { return of(self).provider.name; };
    GetInputTypeCount = [](const OrtCustomOp* self) { return ProductIndices(of(self).op).zero_point + 1; };
    GetInputType = [](const OrtCustomOp* self, size_t index) {
      const ProductIndices indices(of(self).op);
      if (index == indices.kX || index == indices.kScale) return static_cast<int>(of(self).dtype);
      const bool is_code = index == indices.kData || index == indices.zero_point;
      return is_code ? of(self).codes.number : static_cast<int>(DataType::kInt64);
    };
    GetOutputType = [](const OrtCustomOp* self, size_t) { return static_cast<int>(of(self).dtype); };
    CreateKernelV2 = [](const OrtCustomOp* self, const OrtApi* ort, const OrtKernelInfo* info, void** kernel) {
      return create_kernel(self, ort, info, kernel, [&](const std::string& subject) {
        const ProductCustomOp& custom = of(self);
        return custom.provider.make_product(custom.op)(
            {ort, info, custom.dtype, custom.codes.code, custom.settings, subject});
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
    for (const ProductOp op : {ProductOp::kMatMul, ProductOp::kGather}) {
      if (provider.make_product(op) == nullptr) continue;
      for (const DataType dtype : kProductTypes) {
        for (const CodeType& type : kCodeTypes) {
          ops.push_back(std::make_shared<ProductCustomOp>(api, provider, op, dtype, type, settings));
        }
      }
    }
  }
  return ops;
}

}  // namespace ortconv

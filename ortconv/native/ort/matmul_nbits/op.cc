#include "ort/matmul_nbits/op.h"

#include <string>
#include <utility>

#include "base/error.h"
#include "kernels/matmul_nbits/matmul_nbits.h"
#include "ort/abi/custom_op.h"
#include "ort/abi/infer_shape.h"
#include "ort/matmul_nbits/inputs.h"
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

const char* name_of(MatMulOp op) {
  if (op.has_codebook) return op.gathers ? "GatherMatMulCodebook" : "MatMulCodebook";
  return op.gathers ? "GatherMatMulCompressed" : "MatMulCompressed";
}

// Every dimension but those of the weights may be symbolic.
void infer_matmul_shape(const OrtApi* api, MatMulOp op, OrtShapeInferContext* context) {
  const InputShape x(api, context, MatMulIndices::kX), data(api, context, MatMulIndices::kData);
  const InputShape& rows = op.gathers ? InputShape(api, context, MatMulIndices::kIndex) : x;
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

struct MatMulCustomOp : CustomOp {
  const OrtApi* api;
  const Provider& provider;
  MatMulOp op;
  DataType dtype;
  CodeType codes;
  Settings settings;

  MatMulCustomOp(const OrtApi* ort_api, const Provider& executor, MatMulOp which, DataType floats, CodeType integers,
                 const Settings& configuration)
      : api(ort_api), provider(executor), op(which), dtype(floats), codes(integers), settings(configuration) {
    GetName = [](const OrtCustomOp* self) { return name_of(of(self).op); };
    GetExecutionProviderType = [](const OrtCustomOp* self) { return of(self).provider.name; };
    GetInputTypeCount = [](const OrtCustomOp* self) { return MatMulIndices(of(self).op).last + 1; };
    GetInputType = [](const OrtCustomOp* self, size_t index) {
      const MatMulIndices indices(of(self).op);
      if (index == indices.kX || index == indices.kScale) return static_cast<int>(of(self).dtype);
      if (index == indices.last && of(self).op.has_codebook) return static_cast<int>(DataType::kFloat);
      const bool is_code = index == indices.kData || index == indices.last;
      return is_code ? of(self).codes.number : static_cast<int>(DataType::kInt64);
    };
    if (op.has_codebook) GetInputCharacteristic = [](const OrtCustomOp*, size_t) { return abi::kRequired; };
    GetOutputType = [](const OrtCustomOp* self, size_t) { return static_cast<int>(of(self).dtype); };
    CreateKernelV2 = [](const OrtCustomOp* self, const OrtApi* ort, const OrtKernelInfo* info, void** kernel) {
      return create_kernel(self, ort, info, kernel, [&](const std::string& subject) {
        const MatMulCustomOp& custom = of(self);
        return custom.provider.make_matmul(
            {ort, info, custom.op, custom.dtype, custom.codes.code, custom.settings, subject});
      });
    };
    InferOutputShapeFn = [](const OrtCustomOp* self, OrtShapeInferContext* context) -> OrtStatus* {
      return try_infer([&] { infer_matmul_shape(of(self).api, of(self).op, context); });
    };
  }

  static const MatMulCustomOp& of(const OrtCustomOp* self) { return *static_cast<const MatMulCustomOp*>(self); }
};

}  // namespace

CustomOps matmul_ops(const OrtApi* api, const Settings& settings) {
  CustomOps ops;
  if (!settings.matmul_compressed) return ops;
  for (const Provider& provider : providers()) {
    if (provider.make_matmul == nullptr) continue;
    for (const MatMulOp op : kMatMulOps) {
      for (const DataType dtype : kMatMulTypes) {
        if (op.has_codebook) {
          ops.push_back(std::make_shared<MatMulCustomOp>(api, provider, op, dtype, kCodes, settings));
          continue;
        }
        for (const CodeType& type : kIntegers) {
          ops.push_back(std::make_shared<MatMulCustomOp>(api, provider, op, dtype, type, settings));
        }
      }
    }
  }
  return ops;
}

}  // namespace ortconv

#include "ort/matmul_compressed.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <string>
#include <utility>

#include "base/arch.h"
#include "kernels/compressed/compressed.h"
#include "ops/pool_size.h"
#include "ort/attributes.h"
#include "ort/custom_op.h"
#include "ort/infer_shape.h"
#include "ort/tensors.h"

namespace ortconv {
namespace {

constexpr int kFloatType = 1;
constexpr size_t kX = 0, kData = 1, kScale = 2, kZeroPoint = 3, kInputs = 4;

// A type of integers, numbered as in ONNX's TensorProto.DataType.
struct CodeType {
  int number;
  kernels::Code code;
};
constexpr CodeType kCodeTypes[] = {
    {2, kernels::Code::kU8}, {3, kernels::Code::kS8}, {21, kernels::Code::kU4}, {22, kernels::Code::kS4}};

// Fails unless a tensor is a matrix of these sizes.
void check_matrix(const char* input, const Shape& found, const Shape& allowed) {
  if (found != allowed) fail("input ", input, " has shape ", to_string(found), "; allowed: ", to_string(allowed), ".");
}

class MatMulCompressed : public Kernel {
 public:
  MatMulCompressed(const OrtApi* api, const OrtKernelInfo* info, kernels::Code code, std::string subject)
      : Kernel(api, std::move(subject)), code_(code), block_(KernelAttributes(api, info).integer("block_size")) {
    if (block_ < 1) fail("attribute block_size = ", block_, " is not allowed; allowed: integers >= 1.");
  }

  void compute(OrtKernelContext* context) const override;

 private:
  kernels::Code code_;
  int64_t block_;
  mutable PoolSize pool_size_;
};

void MatMulCompressed::compute(OrtKernelContext* context) const {
  const OrtValue* in[kInputs] = {};
  size_t count = 0;
  invoke<abi::KernelContextGetInputCount>(api(), context, &count);
  for (size_t i = 0; i < std::min(count, kInputs); ++i) invoke<abi::KernelContextGetInput>(api(), context, i, &in[i]);

  const Shape data = shape_of(api(), in[kData]);
  if (data.size() != 2) fail("input data has shape ", to_string(data), "; allowed: rank 2.");
  kernels::CompressedMatrix matrix;
  matrix.code = code_;
  matrix.n = data[0];
  matrix.k = data[1];
  matrix.block = block_;
  if (matrix.k < 1 || matrix.k % block_ != 0) {
    fail("input data has ", matrix.k, " columns; allowed: a multiple of block_size = ", block_, ".");
  }
  const Shape blocks = {matrix.n, matrix.k / block_};
  check_matrix("scale", shape_of(api(), in[kScale]), blocks);
  matrix.codes = data_of(api(), in[kData]);
  matrix.scales = static_cast<const float*>(data_of(api(), in[kScale]));
  matrix.zeros = nullptr;
  if (in[kZeroPoint] != nullptr) {
    check_matrix("zero_point", shape_of(api(), in[kZeroPoint]), blocks);
    matrix.zeros = data_of(api(), in[kZeroPoint]);
  }
  Shape shape = shape_of(api(), in[kX]);
  if (shape.size() < 2 || shape.back() != matrix.k) {
    fail("input X has shape ", to_string(shape), "; allowed: rank 2 or more, and ", matrix.k, " columns, as data has.");
  }
  shape.back() = matrix.n;
  const int64_t m = std::accumulate(shape.begin(), shape.end() - 1, int64_t{1}, std::multiplies<int64_t>());

  OrtValue* y = nullptr;
  invoke<abi::KernelContextGetOutput>(api(), context, size_t{0}, static_cast<const int64_t*>(shape.data()),
                                      shape.size(), &y);
  const ArchFlags arch = ArchFlags::host();
  SessionThreads threads(api(), context);
  Parallel parallel = threads.parallel();
  parallel.threads = pool_size_.threads(parallel);
  const Scratch scratch(api(), context, y, kernels::compressed_scratch_bytes<float>(arch, matrix, m, parallel.threads));
  kernels::multiply_compressed(arch, matrix, m, static_cast<const float*>(data_of(api(), in[kX])),
                               static_cast<float*>(data_of(api(), y)), scratch.data(), parallel);
}

struct MatMulCompressedOp : CustomOp {
  const OrtApi* api;
  CodeType codes;

  MatMulCompressedOp(const OrtApi* ort_api, CodeType type) : api(ort_api), codes(type) {
    GetName = [](const OrtCustomOp*) { return "MatMulCompressed"; };
    GetExecutionProviderType = [](const OrtCustomOp*) { return "CPUExecutionProvider"; };
    GetInputTypeCount = [](const OrtCustomOp*) { return kInputs; };
    GetInputType = [](const OrtCustomOp* self, size_t index) {
      return index == kX || index == kScale ? kFloatType : of(self).codes.number;
    };
    GetOutputType = [](const OrtCustomOp*, size_t) { return kFloatType; };
    CreateKernelV2 = [](const OrtCustomOp* self, const OrtApi* ort, const OrtKernelInfo* info, void** kernel) {
      return create_kernel(self, ort, info, kernel, [&](const std::string& subject) {
        return std::make_unique<MatMulCompressed>(ort, info, of(self).codes.code, subject);
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

std::vector<std::shared_ptr<const OrtCustomOp>> matmul_compressed_ops(const OrtApi* api) {
  std::vector<std::shared_ptr<const OrtCustomOp>> ops;
  for (const CodeType& type : kCodeTypes) ops.push_back(std::make_shared<MatMulCompressedOp>(api, type));
  return ops;
}

}  // namespace ortconv

// For which of ONNX Runtime's execution providers this library has kernels, and how they are made.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "kernels/compressed/compressed.h"
#include "ops/conv_params.h"
#include "ort/kernel.h"
#include "ort/settings.h"

namespace ortconv {

// A node as ONNX Runtime asks for its kernel.
struct Creation {
  const OrtApi* api;
  const OrtKernelInfo* info;
  ConvOp op;
  DataType dtype;
  Settings settings;
  std::string subject;  // how messages name the node
};

// The products by compressed weights: MatMulCompressed, GatherMatMulCompressed, and by codes of a table MatMulCodebook
// and GatherMatMulCodebook.
struct ProductOp {
  bool gathers, has_codebook;
};
constexpr ProductOp kProductOps[] = {{false, false}, {true, false}, {false, true}, {true, true}};

// The same for one of these.
struct ProductCreation {
  const OrtApi* api;
  const OrtKernelInfo* info;
  ProductOp op;
  DataType dtype;
  kernels::Code code;
  Settings settings;
  std::string subject;
};

// The types of X that every provider multiplies by compressed weights.
constexpr DataType kProductTypes[] = {DataType::kFloat, DataType::kFloat16, DataType::kBfloat16};

// The same for a ConvIntegerToFloat of these types of X and W.
struct IntegerConvCreation {
  const OrtApi* api;
  const OrtKernelInfo* info;
  DataType x, w;
  std::string subject;
};

struct Provider {
  const char* name;  // in ONNX Runtime
  std::vector<DataType> dtypes;
  std::unique_ptr<Kernel> (*make)(const Creation&);
  std::unique_ptr<Kernel> (*make_product)(const ProductCreation&);           // null: it has none of these
  std::unique_ptr<Kernel> (*make_integer_conv)(const IntegerConvCreation&);  // null: it has none
};

// ONNX Runtime gives a node with another element type to the first provider of the session that takes it.
const std::vector<Provider>& providers();

}  // namespace ortconv

// The inputs of products by compressed weights: X, data, scale, where matrices are gathered an index, and at last a
// codebook, or a zero_point, which is optional.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "ops/conv_params.h"
#include "ort/abi/abi.h"
#include "ort/providers.h"

namespace ortconv {

struct MatMulIndices {
  static constexpr size_t kX = 0, kData = 1, kScale = 2, kIndex = 3;
  size_t last;  // zero_point or codebook

  explicit MatMulIndices(MatMulOp op) : last(op.gathers ? kIndex + 1 : kIndex) {}
};

// Those of a run; null where the node has none. Throws Error when ONNX Runtime reports one, as everything here.
struct MatMulInputs {
  const OrtValue* x = nullptr;
  const OrtValue* data = nullptr;
  const OrtValue* scale = nullptr;
  const OrtValue* index = nullptr;
  const OrtValue* zero_point = nullptr;
  const OrtValue* codebook = nullptr;

  MatMulInputs(const OrtApi* api, MatMulOp op, const OrtKernelContext* context);
};

struct MatMulShapes {
  Shape x, data, scale;
  std::optional<Shape> index, zero_point, codebook;

  MatMulShapes() = default;
  MatMulShapes(const OrtApi* api, const MatMulInputs& in);

  bool operator==(const MatMulShapes& other) const {
    return x == other.x && data == other.data && scale == other.scale && index == other.index &&
           zero_point == other.zero_point && codebook == other.codebook;
  }
};

// X has m rows of k elements, the weights n of them.
struct MatMulSizes {
  int64_t m, n, k;
  Shape y;
};

// Throws Error where the shapes do not fit.
MatMulSizes matmul_sizes(const MatMulShapes& shapes, int64_t block);

// The same where matrices are gathered: so many matrices of n rows, and a row of X for each `sharing` of the index.
struct GatherMatMulSizes {
  int64_t matrices, n, k, count, sharing;
  Shape y;
};
GatherMatMulSizes gather_matmul_sizes(const MatMulShapes& shapes, int64_t block);

// Reads and checks the only attribute.
int64_t block_size_of(const OrtApi* api, const OrtKernelInfo* info);

}  // namespace ortconv

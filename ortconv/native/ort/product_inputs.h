// The inputs of MatMulCompressed: X, data, scale and an optional zero_point.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "ops/conv_params.h"
#include "ort/abi.h"

namespace ortconv {

struct ProductIndices {
  static constexpr size_t kX = 0, kData = 1, kScale = 2, kZeroPoint = 3, kCount = 4;
};

// Those of a run; zero_point is null where the node has none. Throws Error when ONNX Runtime reports one, as everything
// here.
struct ProductInputs {
  const OrtValue* x = nullptr;
  const OrtValue* data = nullptr;
  const OrtValue* scale = nullptr;
  const OrtValue* zero_point = nullptr;

  ProductInputs(const OrtApi* api, const OrtKernelContext* context);
};

struct ProductShapes {
  Shape x, data, scale;
  std::optional<Shape> zero_point;

  ProductShapes() = default;
  ProductShapes(const OrtApi* api, const ProductInputs& in);

  bool operator==(const ProductShapes& other) const {
    return x == other.x && data == other.data && scale == other.scale && zero_point == other.zero_point;
  }
};

// X has m rows of k elements, the weights n of them.
struct ProductSizes {
  int64_t m, n, k;
  Shape y;
};

// Throws Error where the shapes do not fit.
ProductSizes product_sizes(const ProductShapes& shapes, int64_t block);

// Reads and checks the only attribute.
int64_t block_size_of(const OrtApi* api, const OrtKernelInfo* info);

}  // namespace ortconv

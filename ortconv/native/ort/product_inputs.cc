#include "ort/product_inputs.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "base/error.h"
#include "ort/attributes.h"
#include "ort/boundary.h"
#include "ort/tensors.h"

namespace ortconv {
namespace {

// Fails unless a tensor is a matrix of these sizes.
void check_matrix(const char* input, const Shape& found, const Shape& allowed) {
  if (found != allowed) fail("input ", input, " has shape ", to_string(found), "; allowed: ", to_string(allowed), ".");
}

}  // namespace

ProductInputs::ProductInputs(const OrtApi* api, const OrtKernelContext* context) {
  const OrtValue** const all[ProductIndices::kCount] = {&x, &data, &scale, &zero_point};
  size_t count = 0;
  invoke<abi::KernelContextGetInputCount>(api, context, &count);
  for (size_t i = 0; i < std::min(count, ProductIndices::kCount); ++i) {
    invoke<abi::KernelContextGetInput>(api, context, i, all[i]);
  }
}

ProductShapes::ProductShapes(const OrtApi* api, const ProductInputs& in)
    : x(shape_of(api, in.x)), data(shape_of(api, in.data)), scale(shape_of(api, in.scale)) {
  if (in.zero_point != nullptr) zero_point = shape_of(api, in.zero_point);
}

ProductSizes product_sizes(const ProductShapes& shapes, int64_t block) {
  const Shape& data = shapes.data;
  if (data.size() != 2) fail("input data has shape ", to_string(data), "; allowed: rank 2.");
  const int64_t k = data[1];
  if (k < 1 || k % block != 0) {
    fail("input data has ", k, " columns; allowed: a multiple of block_size = ", block, ".");
  }
  const Shape blocks = {data[0], k / block};
  check_matrix("scale", shapes.scale, blocks);
  if (shapes.zero_point) check_matrix("zero_point", *shapes.zero_point, blocks);
  ProductSizes sizes{0, data[0], k, shapes.x};
  if (sizes.y.size() < 2 || sizes.y.back() != k) {
    fail("input X has shape ", to_string(shapes.x), "; allowed: rank 2 or more, and ", k, " columns, as data has.");
  }
  sizes.y.back() = sizes.n;
  sizes.m = std::accumulate(sizes.y.begin(), sizes.y.end() - 1, int64_t{1}, std::multiplies<int64_t>());
  return sizes;
}

int64_t block_size_of(const OrtApi* api, const OrtKernelInfo* info) {
  const int64_t block = KernelAttributes(api, info).integer("block_size");
  if (block < 1) fail("attribute block_size = ", block, " is not allowed; allowed: integers >= 1.");
  return block;
}

}  // namespace ortconv

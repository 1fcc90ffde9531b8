#include "ort/matmul_nbits/inputs.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <vector>

#include "base/error.h"
#include "ort/abi/attributes.h"
#include "ort/abi/boundary.h"
#include "ort/abi/tensors.h"

namespace ortconv {
namespace {

// Fails unless a tensor has these sizes.
void check_shape(const char* input, const Shape& found, const Shape& allowed) {
  if (found != allowed) fail("input ", input, " has shape ", to_string(found), "; allowed: ", to_string(allowed), ".");
}

// Fails unless data has so many axes and whole blocks, with a scale and perhaps a zero point for each of these, and a
// codebook has as many numbers as 4 bits tell apart.
void check_weights(const MatMulShapes& shapes, size_t rank, int64_t block) {
  if (shapes.data.size() != rank) {
    fail("input data has shape ", to_string(shapes.data), "; allowed: rank ", rank, ".");
  }
  const int64_t k = shapes.data.back();
  if (k < 1 || k % block != 0) {
    fail("input data has ", k, " columns; allowed: a multiple of block_size = ", block, ".");
  }
  Shape blocks = shapes.data;
  blocks.back() = k / block;
  check_shape("scale", shapes.scale, blocks);
  if (shapes.zero_point) check_shape("zero_point", *shapes.zero_point, blocks);
  if (shapes.codebook) check_shape("codebook", *shapes.codebook, {kernels::kTableNumbers});
}

}  // namespace

MatMulInputs::MatMulInputs(const OrtApi* api, MatMulOp op, const OrtKernelContext* context) {
  std::vector<const OrtValue**> all = {&x, &data, &scale};
  if (op.gathers) all.push_back(&index);
  all.push_back(op.has_codebook ? &codebook : &zero_point);
  size_t count = 0;
  invoke<abi::KernelContextGetInputCount>(api, context, &count);
  for (size_t i = 0; i < std::min(count, all.size()); ++i) {
    invoke<abi::KernelContextGetInput>(api, context, i, all[i]);
  }
}

MatMulShapes::MatMulShapes(const OrtApi* api, const MatMulInputs& in)
    : x(shape_of(api, in.x)), data(shape_of(api, in.data)), scale(shape_of(api, in.scale)) {
  if (in.index != nullptr) index = shape_of(api, in.index);
  if (in.zero_point != nullptr) zero_point = shape_of(api, in.zero_point);
  if (in.codebook != nullptr) codebook = shape_of(api, in.codebook);
}

MatMulSizes matmul_sizes(const MatMulShapes& shapes, int64_t block) {
  check_weights(shapes, 2, block);
  const int64_t k = shapes.data[1];
  MatMulSizes sizes{0, shapes.data[0], k, shapes.x};
  if (sizes.y.size() < 2 || sizes.y.back() != k) {
    fail("input X has shape ", to_string(shapes.x), "; allowed: rank 2 or more, and ", k, " columns, as data has.");
  }
  sizes.y.back() = sizes.n;
  // Beside a size of 0 the others may be too large to be multiplied.
  const bool is_empty = std::find(sizes.y.begin(), sizes.y.end() - 1, 0) != sizes.y.end() - 1;
  sizes.m = is_empty ? 0 : std::accumulate(sizes.y.begin(), sizes.y.end() - 1, int64_t{1}, std::multiplies<int64_t>());
  return sizes;
}

GatherMatMulSizes gather_matmul_sizes(const MatMulShapes& shapes, int64_t block) {
  check_weights(shapes, 3, block);
  if (!shapes.index || shapes.index->size() != 2) {
    fail("input index has shape ", to_string(shapes.index ? *shapes.index : Shape()), "; allowed: rank 2.");
  }
  const int64_t rows = shapes.index->front(), slots = shapes.index->back(), k = shapes.data[2];
  const bool is_shared = shapes.x == Shape{rows, 1, k};
  if (!is_shared && shapes.x != Shape{rows, slots, k}) {
    fail("input X has shape ", to_string(shapes.x), "; allowed: ", to_string({rows, slots, k}),
         ", or 1 in the second place.");
  }
  return {shapes.data[0],
          shapes.data[1],
          k,
          rows * slots,
          is_shared ? std::max<int64_t>(slots, 1) : 1,
          {rows, slots, shapes.data[1]}};
}

int64_t block_size_of(const OrtApi* api, const OrtKernelInfo* info) {
  const int64_t block = KernelAttributes(api, info).integer("block_size");
  if (block < 1) fail("attribute block_size = ", block, " is not allowed; allowed: integers >= 1.");
  return block;
}

}  // namespace ortconv

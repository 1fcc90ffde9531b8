// The inputs and attributes of the convolutions: X, W, output_shape (TransposedConvolutionToShape) or R
// (TransposedConvolutionAdd), and an optional B.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "ops/conv_params.h"
#include "ort/abi/abi.h"
#include "ort/abi/attributes.h"
#include "ort/abi/infer_shape.h"
#include "ort/abi/tensors.h"

namespace ortconv {

struct ConvIndices {
  static constexpr size_t kNone = SIZE_MAX;
  size_t x = kNone, w = kNone, output_shape = kNone, residual = kNone, b = kNone;

  ConvIndices() = default;
  // Those of an operator of ours.
  explicit ConvIndices(ConvOp op) : x(0), w(1), b(2) {
    if (op == ConvOp::kConvTransposeToShape) output_shape = 2, b = 3;
    if (op == ConvOp::kConvTransposeAdd) residual = 2, b = 3;
  }
};

// Those of a run; empty where the node has none.
struct ConvInputs {
  std::optional<TensorView> x, w, output_shape, residual, b;
};

// Reads the inputs of a node's runs. Throws Error when ONNX Runtime reports one, as everything here.
class ConvReader {
 public:
  // Constant inputs can be read once and for all where runs read them from the same memory. Each call of ONNX Runtime
  // that this saves takes about 1% of the time of the smallest runs.
  enum class Constants { kReadOnce, kReadByEachRun };
  ConvReader(const OrtApi* api, const OrtKernelInfo* info, ConvOp op, Constants constants);
  // Of a node whose inputs lie elsewhere. Those that it has not, or that are constant, have no index.
  ConvReader(const OrtApi* api, const ConvIndices& at, ConvInputs constants)
      : api_(api), at_(at), count_(ConvIndices::kNone), constants_(std::move(constants)) {}

  // Those that were read once and for all.
  const ConvInputs& constants() const { return constants_; }

  ConvInputs read(const OrtKernelContext* context) const;

 private:
  // Calls fn(index, member) for each input that the node may have.
  template <class Fn>
  void for_each_input(Fn fn) const;

  const OrtApi* api_;
  ConvIndices at_;
  size_t count_ = 0;
  ConvInputs constants_;
};

// The elements of an output_shape, which lies in memory of the host.
Numbers output_shape_of(const TensorView& tensor);

// What decides how a run is computed, in lists of its own or in ones that lie elsewhere.
template <class List>
struct SizesIn {
  List x;
  std::optional<List> w;  // where the weights are not constant
  std::optional<List> b, residual;
  std::optional<List> output_shape;  // its elements
};
using Sizes = SizesIn<Shape>;
using SizesView = SizesIn<Numbers>;

template <class A, class B>
bool operator==(const SizesIn<A>& a, const SizesIn<B>& b) {
  return a.x == b.x && a.w == b.w && a.b == b.b && a.residual == b.residual && a.output_shape == b.output_shape;
}

// Those of a run, which live as long as its inputs.
SizesView sizes_of(const ConvInputs& inputs, bool constant_weights);

// A copy of them.
Sizes copy_of(const SizesView& sizes);

// Those of all runs, where ONNX Runtime knows them when it creates the kernel.
std::optional<Sizes> known_sizes(const OrtApi* api, const OrtKernelInfo* info, const ConvAttributes& attributes,
                                 bool constant_weights);

// The problem of a run that has these sizes; `weights` is weight_problem() of constant weights, else null.
ConvProblem problem_of(const ConvAttributes& attributes, const ConvProblem* weights, const Sizes& sizes);

// The attributes of a node of this family, not checked.
ConvAttributes read_attributes(ConvOp op, const AttributeSource& source);

// Tells ONNX Runtime the shape of Y, of element type `result`, of a convolution with checked attributes: known where
// every dimension is, but for the batch, which may be symbolic. Throws Error otherwise.
void infer_conv_shape(const OrtApi* api, const ConvAttributes& attributes, const InputShape& x, const InputShape& w,
                      int result, OrtShapeInferContext* context);

}  // namespace ortconv

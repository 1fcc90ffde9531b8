// The inputs and attributes of the convolutions of 8-bit integers whose results may be quantized.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "ops/conv_params.h"
#include "ort/abi/abi.h"
#include "ort/abi/attributes.h"
#include "ort/abi/tensors.h"

namespace ortconv {

// Transposed convolutions, but for the last.
enum class QuantizedOp { kToFloat, kQuantized, kQuantizedAdd, kAffine };

// Those of a run; empty where the node has none.
struct QuantizedInputs {
  static constexpr size_t kX = 0, kXScale = 1, kXZero = 2, kW = 3, kWScale = 4, kWZero = 5;
  static constexpr size_t kYScale = 6, kYZero = 7;            // but for kToFloat
  static constexpr size_t kR = 9, kRScale = 10, kRZero = 11;  // of kQuantizedAdd
  static constexpr size_t kFactor = 9, kAddend = 10;          // of kAffine
  static constexpr size_t kMost = 12;

  static constexpr size_t bias(QuantizedOp op) { return op == QuantizedOp::kToFloat ? 6 : 8; }
  static constexpr size_t count(QuantizedOp op) {
    return op == QuantizedOp::kQuantizedAdd ? kRZero + 1 : op == QuantizedOp::kAffine ? kAddend + 1 : bias(op) + 1;
  }

  const TensorView& operator[](size_t index) const { return *values[index]; }

  std::array<std::optional<TensorView>, kMost> values = {};
};

// Reads the inputs of a node's runs. Throws Error when ONNX Runtime reports one, as everything here.
class QuantizedReader {
 public:
  // Of an operator of ours. Constants can be read once and for all where runs read them from the same memory.
  enum class Constants { kReadOnce, kReadByEachRun };
  QuantizedReader(const OrtApi* api, const OrtKernelInfo* info, QuantizedOp op, Constants constants);
  // Of a node that has X as its input `x`, and else constants, which lie elsewhere.
  QuantizedReader(const OrtApi* api, size_t x, QuantizedInputs constants)
      : api_(api), constants_(std::move(constants)), of_runs_{{QuantizedInputs::kX, x}} {}

  const QuantizedInputs& constants() const { return constants_; }

  QuantizedInputs read(const OrtKernelContext* context) const;

 private:
  struct Place {
    size_t member, index;
  };

  const OrtApi* api_;
  QuantizedInputs constants_;
  std::vector<Place> of_runs_;
};

// Those of a Convolution or TransposedConvolution in ONNX's layout, but for the activation. Checked.
ConvAttributes quantized_attributes(const AttributeSource& source, QuantizedOp op);

Activation quantized_activation(const AttributeSource& source, QuantizedOp op);

// Refuses scales and zero points that are not one number each, or one for each output channel where that is allowed.
// Returns how many scales W has.
int64_t check_quantized_numbers(const QuantizedInputs& inputs, QuantizedOp op, int64_t channels);

// Whether the bias of kAffine, of this shape, has a number for each element of an image of Y; if not, one for each
// output channel. Refuses other shapes.
bool check_biases(const Shape& shape, const ConvProblem& problem);

}  // namespace ortconv

// The inputs and attributes of the transposed convolutions of 8-bit integers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "ops/conv_params.h"
#include "ort/abi/abi.h"
#include "ort/abi/attributes.h"

namespace ortconv {

enum class QuantizedOp { kToFloat, kQuantized, kQuantizedAdd };

struct QuantizedInputs {
  static constexpr size_t kX = 0, kXScale = 1, kXZero = 2, kW = 3, kWScale = 4, kWZero = 5;
  static constexpr size_t kYScale = 6, kYZero = 7;            // but for kToFloat
  static constexpr size_t kR = 9, kRScale = 10, kRZero = 11;  // of kQuantizedAdd
  static constexpr size_t kMost = 12;

  static constexpr size_t bias(QuantizedOp op) { return op == QuantizedOp::kToFloat ? 6 : 8; }
  static constexpr size_t count(QuantizedOp op) { return op == QuantizedOp::kQuantizedAdd ? kMost : bias(op) + 1; }

  // Those of a run. Throws Error when ONNX Runtime reports one, as everything here.
  QuantizedInputs(const OrtApi* api, const OrtKernelContext* context, QuantizedOp op);

  const OrtValue* operator[](size_t index) const { return values[index]; }

  std::array<const OrtValue*, kMost> values = {};
};

// Those of a TransposedConvolution in ONNX's layout, but for the activation. Checked.
ConvAttributes quantized_attributes(const AttributeSource& source);

// Refuses scales and zero points that are not one number each, or one for each output channel where that is allowed.
// Returns how many scales W has.
int64_t check_quantized_numbers(const OrtApi* api, const QuantizedInputs& inputs, QuantizedOp op, int64_t channels);

}  // namespace ortconv

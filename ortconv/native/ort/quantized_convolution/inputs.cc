#include "ort/quantized_convolution/inputs.h"

#include <numeric>

#include "ort/abi/boundary.h"
#include "ort/conv_integer_to_float/inputs.h"

namespace ortconv {

QuantizedReader::QuantizedReader(const OrtApi* api, const OrtKernelInfo* info, QuantizedOp op, Constants constants)
    : api_(api) {
  for (size_t i = 0; i < QuantizedInputs::count(op); ++i) {
    const OrtValue* const value = constants == Constants::kReadOnce ? constant_input(api, info, i) : nullptr;
    if (value != nullptr) {
      constants_.values[i] = view_of(api, value);
    } else {
      of_runs_.push_back({i, i});
    }
  }
}

QuantizedInputs QuantizedReader::read(const OrtKernelContext* context) const {
  QuantizedInputs inputs = constants_;
  for (const Place& place : of_runs_) {
    const OrtValue* value = nullptr;
    invoke<abi::KernelContextGetInput>(api_, context, place.index, &value);
    inputs.values[place.member] = view_of(api_, value);
  }
  return inputs;
}

ConvAttributes quantized_attributes(const AttributeSource& source, QuantizedOp op) {
  if (op == QuantizedOp::kAffine) return integer_conv_attributes(source);
  ConvAttributes a;
  a.op = ConvOp::kConvTranspose;
  a.strides = source.integers("strides");
  a.dilations = source.integers("dilations");
  a.pads = source.integers("pads");
  a.output_padding = source.integers("output_padding");
  a.group = source.integer("group");
  a.x_perm.resize(a.strides.size() + 2);
  std::iota(a.x_perm.begin(), a.x_perm.end(), int64_t{0});
  a.w_perm = a.y_perm = a.x_perm;
  a.accumulation_type = static_cast<int64_t>(DataType::kFloat);
  check_attributes(a, DataType::kFloat);
  return a;
}

Activation quantized_activation(const AttributeSource& source, QuantizedOp op) {
  Activation activation = parse_activation(source.numbers("activation"));
  if (op == QuantizedOp::kAffine) activation.hard_sigmoid = parse_hard_sigmoid(source.numbers("hard_sigmoid"));
  return activation;
}

namespace {

void check_each(const char* name, const TensorView& numbers, int64_t channels) {
  if (numbers.dims.copy() == Shape{channels}) return;
  fail("input ", name, " has shape ", to_string(numbers.dims.copy()), "; allowed: [", channels, "].");
}

}  // namespace

int64_t check_quantized_numbers(const QuantizedInputs& inputs, QuantizedOp op, int64_t channels) {
  const auto check = [&](const char* name, size_t index, int64_t count) {
    return check_quantization(name, inputs[index].dims.copy(), count);
  };
  check("x_scale", QuantizedInputs::kXScale, 1);
  check("x_zero_point", QuantizedInputs::kXZero, 1);
  check("w_zero_point", QuantizedInputs::kWZero, 1);
  if (op != QuantizedOp::kToFloat) {
    check("y_scale", QuantizedInputs::kYScale, 1);
    check("y_zero_point", QuantizedInputs::kYZero, 1);
  }
  if (op == QuantizedOp::kQuantizedAdd) {
    check("r_scale", QuantizedInputs::kRScale, 1);
    check("r_zero_point", QuantizedInputs::kRZero, 1);
  }
  if (op == QuantizedOp::kAffine) {
    check_each("factor", inputs[QuantizedInputs::kFactor], channels);
    check_each("addend", inputs[QuantizedInputs::kAddend], channels);
  }
  return check("w_scale", QuantizedInputs::kWScale, channels);
}

bool check_biases(const Shape& shape, const ConvProblem& problem) {
  Shape plain(problem.ndims + 1, 1), whole{problem.oc};
  plain[0] = problem.oc;
  whole.insert(whole.end(), problem.dst_size, problem.dst_size + problem.ndims);
  if (shape == plain) return false;
  if (shape == whole) return true;
  fail("input B has shape ", to_string(shape), "; allowed: ", to_string(plain), ", or ", to_string(whole), ".");
}

}  // namespace ortconv

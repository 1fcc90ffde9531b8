#include "ep/integers.h"

#include <algorithm>
#include <cstdlib>
#include <initializer_list>
#include <limits>
#include <utility>

#include "base/error.h"
#include "base/math.h"
#include "ep/activations.h"
#include "ep/group.h"
#include "ep/layouts.h"
#include "ep/numbers.h"
#include "ep/standard_convs.h"
#include "ops/quantized_convolution.h"
#include "ort/convolution/inputs.h"

namespace ortconv::ep {
namespace {

// The DequantizeLinear that makes a value for one reader; none where something else makes it. Where the reader is a
// node of a subgraph, the value is read by the node that has it.
std::optional<Node> dequantizer_of(const Value& value, const Node& reader, const std::set<size_t>& taken) {
  std::optional<Node> node = value.producer();
  if (!node || !node->is("DequantizeLinear")) return std::nullopt;
  const std::vector<Node> readers = value.consumers();
  const bool is_alone = !value.is_graph_output() && readers.size() == 1 && readers[0].get() == reader.get();
  if (!is_alone || is_taken(*node, taken)) fail(value.name(), " has other consumers");
  return node;
}

// Scales and the zero point of a DequantizeLinear or QuantizeLinear of such integers.
Quantization read_quantization(const Node& node, const char* what, DataType type) {
  const NodeAttributes attributes(node);
  if (attributes.integer("block_size").value_or(0) != 0) fail(what, " have scales of blocks");
  Quantization found;
  found.type = type;
  const Value scale = node.input(1), zero = node.input(2);
  if (scale.type().type != static_cast<int>(DataType::kFloat)) fail(what, " have a scale of type ", scale.type().type);
  const auto scales = numbers_of(scale);
  if (!scales || scales->empty()) fail(what, " have a scale that is not constant");
  for (const double each : *scales) found.scales.push_back(static_cast<float>(each));
  if (!zero) return found;
  if (zero.type().type != static_cast<int>(type)) fail(what, " have a zero point of type ", zero.type().type);
  const auto zeros = integers_of(zero);
  if (!zeros || zeros->empty()) fail(what, " have a zero point that is not constant");
  found.zero = zeros->front();
  if (std::any_of(zeros->begin(), zeros->end(), [&](int64_t each) { return each != found.zero; })) {
    fail(what, " have several zero points");
  }
  return found;
}

DataType byte_type(const Value& integers, const char* what) {
  const int type = integers.type().type;
  if (type != static_cast<int>(DataType::kInt8) && type != static_cast<int>(DataType::kUint8)) {
    fail(what, " have element type ", type, "; allowed: 2, 3");
  }
  return static_cast<DataType>(type);
}

void require_float(const Node& dequantizer, const char* what) {
  const int type = dequantizer.outputs().at(0).type().type;
  if (type != static_cast<int>(DataType::kFloat)) fail(what, " are dequantized to type ", type);
}

void require_one(const Quantization& quantization, const char* what) {
  if (quantization.scales.size() != 1) fail(what, " have ", quantization.scales.size(), " scales");
}

// What a layer needs to know of its weights: one scale for each output channel, and that no sum leaves 32 bits.
void read_weights(IntegerLayer* layer, const Node& dequantizer) {
  constexpr const char* kWhat = "its weights";
  constexpr int64_t kLargest = 255;  // of the data, beside their zero point
  const DataType type = byte_type(layer->w, kWhat);
  const auto data = layer->w.constant();
  if (!data) fail("its weights are not constant");
  Quantization& of_w = layer->of_w = read_quantization(dequantizer, kWhat, type);
  const Shape dims = data->dims.copy();
  const auto rank = static_cast<int64_t>(dims.size());
  const int64_t groups = layer->attributes.group, count = product_of(dims.data(), static_cast<int>(rank));
  if (count == 0 || dims[0] % groups != 0) fail("its weights have shape ", to_string(dims), " for ", groups, " groups");
  int64_t inner = count;  // elements with the same scale, one after the other
  if (of_w.scales.size() > 1) {
    const int64_t axis = NodeAttributes(dequantizer).integer("axis").value_or(1);
    const bool is_axis = axis >= -rank && axis < rank;
    if (!is_axis || static_cast<int64_t>(of_w.scales.size()) != dims[(axis + rank) % rank]) {
      fail("its weights have ", of_w.scales.size(), " scales along axis ", axis);
    }
    const int64_t behind = (axis + rank) % rank + 1;
    inner = product_of(dims.data() + behind, static_cast<int>(rank - behind));
  }
  // Rows of taps: of an input channel a ConvTranspose has those of the outputs of its group, of an output channel a
  // Conv those of the inputs of its group.
  const bool is_transposed = layer->attributes.op != ConvOp::kConv;
  const int64_t of_group = dims[1], rows = dims[0] * of_group, taps = count / rows, inputs = dims[0] / groups;
  const auto scale_of = [&](int64_t i) { return of_w.scales[i / inner % static_cast<int64_t>(of_w.scales.size())]; };
  std::vector<float> scales(is_transposed ? groups * of_group : dims[0]);
  std::vector<int64_t> sums(scales.size());
  const auto read = [&](const auto* w) {
    const auto zero = static_cast<int32_t>(of_w.zero);
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t first = row / of_group, other = row % of_group;
      const int64_t m = is_transposed ? first / inputs * of_group + other : first;
      if ((is_transposed ? first % inputs : other) == 0) scales[m] = scale_of(row * taps);
      const int64_t step = std::min(inner, taps);
      for (int64_t t = 0; t < taps; t += step) {
        if (scale_of(row * taps + t) != scales[m])
          fail("its weights have other scales than one for each output channel");
      }
      int64_t sum = 0;
      for (int64_t t = 0; t < taps; ++t) sum += std::abs(w[row * taps + t] - zero);
      sums[m] += sum;
    }
  };
  if (type == DataType::kInt8) {
    read(static_cast<const int8_t*>(data->data));
  } else {
    read(static_cast<const uint8_t*>(data->data));
  }
  if (*std::max_element(sums.begin(), sums.end()) > std::numeric_limits<int32_t>::max() / kLargest) {
    fail("its sums may not fit into 32 bits");
  }
  of_w.scales = std::move(scales);
}

// Constant floats, or dequantized constants of 32 bits.
void read_bias(IntegerLayer* layer, const std::set<size_t>& taken) {
  std::vector<float>& bias = layer->bias;
  bias.assign(layer->of_w.scales.size(), 0);
  const Value value = layer->node.input(2);
  if (!value) return;
  std::vector<double> terms, scales = {1};
  if (const auto numbers = numbers_of(value)) {
    terms = *numbers;
  } else {
    const auto dequantizer = dequantizer_of(value, layer->node, taken);
    const Value integers = dequantizer ? dequantizer->input(0) : Value();
    const auto found = numbers_of(integers);
    if (!found || integers.type().type != static_cast<int>(DataType::kInt32)) fail("its bias is not constant");
    const Quantization of_bias = read_quantization(*dequantizer, "its bias", DataType::kInt32);
    if (of_bias.zero != 0) fail("its bias has a zero point");
    require_float(*dequantizer, "its bias");
    terms = *found;
    scales.assign(of_bias.scales.begin(), of_bias.scales.end());
    layer->others.push_back(*dequantizer);
  }
  if (terms.size() != bias.size() || (scales.size() != 1 && scales.size() != bias.size())) {
    fail("its bias has ", terms.size(), " numbers and ", scales.size(), " scales for ", bias.size(), " channels");
  }
  for (size_t m = 0; m < bias.size(); ++m) {
    bias[m] = static_cast<float>(terms[m]) * static_cast<float>(scales[scales.size() == 1 ? 0 : m]);
  }
}

// Puts a node that reads the result into the layer; false where no further one can follow. Throws Error where the node
// stays as it is.
bool add_reader(IntegerLayer* layer, const Node& node) {
  if (node.is("QuantizeLinear")) {
    constexpr const char* kWhat = "its integers";
    const NodeAttributes attributes(node);
    const int64_t precision = attributes.integer("precision").value_or(0);
    if (precision != 0 && precision != static_cast<int64_t>(DataType::kFloat)) fail("its precision is ", precision);
    layer->of_y = read_quantization(node, kWhat, byte_type(node.outputs().at(0), kWhat));
    require_one(layer->of_y, kWhat);
    layer->op = QuantizedOp::kQuantized;
    return false;
  }
  add_activation(&layer->attributes.activation, node);
  return true;
}

void add_readers(IntegerLayer* layer, const std::set<size_t>& taken) {
  for (bool goes_on = true; goes_on;) {
    const std::vector<Node> readers = layer->output.consumers();
    if (readers.size() != 1 || layer->output.is_graph_output() || is_taken(readers[0], taken)) return;
    const Node& node = readers[0];
    const auto is_any = [&](std::initializer_list<const char*> ops) {
      return std::any_of(ops.begin(), ops.end(), [&](const char* op) { return node.is(op); });
    };
    if (!is_any({"QuantizeLinear", "Relu", "LeakyRelu", "Clip"})) return;
    try {
      goes_on = add_reader(layer, node);
    } catch (const Error& reason) {
      layer->kept.push_back(node.op_type() + " " + node.name() + ": " + reason.what());
      return;
    }
    layer->others.push_back(node);
    layer->output = node.outputs().at(0);
  }
}

// Whether a MaxPool reads integers, as they are or dequantized.
bool is_pooled(const Value& integers) {
  const std::vector<Node> readers = integers.consumers();
  return std::any_of(readers.begin(), readers.end(), [](const Node& reader) {
    return reader.is("MaxPool") || (reader.is("DequantizeLinear") && is_pooled(reader.outputs().at(0)));
  });
}

ConvAttributes attributes_of(const Node& node, const Shape& w) {
  const NodeAttributes attributes(node);
  if (node.is("Conv")) return read_conv(attributes, w, DataType::kFloat);
  const ConvTranspose conv = read_conv_transpose(attributes, w, DataType::kFloat);
  if (!conv.output_shape.empty()) fail("its padding depends on the sizes of its data");
  return conv.attributes;
}

// None where its sizes are not known, but for the batch.
std::optional<ConvProblem> problem_of(const IntegerLayer& layer) {
  const auto dims = layer.x.type().dims;
  if (!dims || dims->empty()) return std::nullopt;
  Shape x = *dims;
  if (layer.attributes.op == ConvOp::kConv && x[0] < 0) x[0] = 1;
  if (std::any_of(x.begin(), x.end(), [](int64_t size) { return size < 0; })) return std::nullopt;
  const ConvProblem of_weights = weight_problem(layer.attributes, layer.w.constant()->dims.copy());
  return problem_of(layer.attributes, &of_weights, {x, {}, {}, {}, {}});
}

Estimates estimates_of_conv(const ConvProblem& problem) {
  return {quantized_conv_nanoseconds(problem, ArchFlags::host()), qlinear_conv_nanoseconds(problem)};
}

// What a node reads; none where its data are not dequantized.
std::optional<IntegerLayer> read_operands(const Node& node, const std::set<size_t>& taken) {
  constexpr const char* kWhat = "its data";
  const Value x = node.input(0), w = node.input(1);
  if (!x || !w) return std::nullopt;
  const std::optional<Node> of_data = dequantizer_of(x, node, taken);
  if (!of_data) return std::nullopt;
  IntegerLayer layer{node};
  layer.x = of_data->input(0);
  layer.of_x = read_quantization(*of_data, kWhat, byte_type(layer.x, kWhat));
  require_one(layer.of_x, kWhat);
  require_float(*of_data, kWhat);
  if (layer.x.constant()) fail("its data are constant");
  const std::optional<Node> of_weights = dequantizer_of(w, node, taken);
  if (!of_weights) fail("its weights are not dequantized from 8 bits by constants");
  require_float(*of_weights, "its weights");
  layer.others = {*of_data, *of_weights};
  const auto weights = of_weights->input(0).constant();
  if (!weights) fail("its weights are not constant");
  layer.w = of_weights->input(0);
  layer.attributes = attributes_of(node, weights->dims.copy());
  layer.output = node.outputs().at(0);
  return layer;
}

// Adds the nodes that read the result of a Conv; what is left to ONNX Runtime in any case is refused.
ConvProblem require_quantized(IntegerLayer* layer, const std::set<size_t>& taken) {
  const std::optional<ConvProblem> problem = problem_of(*layer);
  if (!problem) fail("its sizes are not known");
  add_readers(layer, taken);
  if (layer->op != QuantizedOp::kQuantized) fail("its result is not quantized");
  // Channels lie last behind a QLinearConv alone; where they lie first, a MaxPool of bytes takes 10 times as long.
  if (is_pooled(layer->output)) fail("ONNX Runtime's MaxPool of its result would be slower");
  return *problem;
}

Estimates estimates_of_transposed(const IntegerLayer& layer, const ConvProblem& problem) {
  const TensorView w = *layer.w.constant();
  const auto zero = static_cast<uint8_t>(layer.of_w.zero);
  const QuantizedConvolution convolution(
      kernels::Op::kConvTranspose, problem,
      {{static_cast<const uint8_t*>(w.data), layer.of_w.type == DataType::kInt8}, &zero, 1}, ArchFlags::host(), {},
      layer.op == QuantizedOp::kToFloat);
  double theirs = onnxruntime_nanoseconds(problem) + dequantize_nanoseconds(problem);
  if (layer.op == QuantizedOp::kQuantized) theirs += quantize_nanoseconds(problem);
  for (const Node& node : layer.others) {
    const bool converts = node.is("DequantizeLinear") || node.is("QuantizeLinear");
    if (!converts) theirs += neighbour_nanoseconds(problem);
  }
  return {convolution.choose(problem)->nanoseconds, theirs};
}

// None where a node is no such layer of known sizes, as far as that is told without a look at the weights of a Conv,
// which may be many.
std::optional<QuantizedConv> read_quantized_conv(const Node& node) {
  if (!is_integer_candidate(node) || (node.is("Conv") && !ArchFlags::host().avx2_fma)) return std::nullopt;
  try {
    const bool is_transposed = node.is("ConvTranspose");
    std::optional<IntegerLayer> layer = is_transposed ? read_integers(node) : read_operands(node, {});
    if (!layer) return std::nullopt;
    QuantizedConv conv{node, layer->x, {}, is_transposed, layer->of_x.type == DataType::kInt8, false, {}, 0, 0};
    Estimates estimates;
    if (is_transposed) {
      const std::optional<ConvProblem> problem = problem_of(*layer);
      if (!problem) return std::nullopt;
      conv.problem = *problem;
      estimates = estimates_of_transposed(*layer, *problem);
    } else {
      byte_type(layer->w, "its weights");
      layer->of_w.scales.assign(static_cast<size_t>(layer->w.constant()->dims.copy()[0]), 1);
      read_bias(&*layer, {});
      conv.problem = require_quantized(&*layer, {});
      estimates = estimates_of_conv(conv.problem);
    }
    conv.y = layer->output;
    conv.y_is_int8 = layer->op == QuantizedOp::kQuantized && layer->of_y.type == DataType::kInt8;
    conv.ours = estimates.ours, conv.onnxruntime = estimates.onnxruntime;
    return conv;
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

bool is_integer_candidate(const Node& node) { return node.is("ConvTranspose") || node.is("Conv"); }

ChosenConvs choose_quantized_convs(const std::vector<Node>& nodes) {
  ChosenConvs chosen;
  std::vector<QuantizedConv> convs;
  for (const Node& node : nodes) {
    if (auto conv = read_quantized_conv(node)) convs.push_back(std::move(*conv));
  }
  for (const QuantizedConv& conv : convs) chosen.known[conv.node.id()] = {conv.ours, conv.onnxruntime};
  try {
    chosen.faster = faster_convs(convs);
  } catch (const Error&) {  // ONNX Runtime does not tell what is around them.
  }
  return chosen;
}

std::optional<IntegerLayer> read_integers(const Node& node, const std::set<size_t>& taken, const ChosenConvs* chosen) {
  std::optional<IntegerLayer> found = read_operands(node, taken);
  if (!found) return std::nullopt;
  IntegerLayer& layer = *found;
  const bool is_conv = node.is("Conv");
  if (chosen != nullptr && chosen->faster.count(node.id()) == 0 && (is_conv || chosen->known.count(node.id()) != 0)) {
    if (is_conv && !ArchFlags::host().avx2_fma) fail("this CPU has no AVX2");
    if (is_conv) require_quantized(&layer, taken);
    fail(
        "ours is estimated to take no less time than ONNX Runtime's, with what is between it and the layers around it");
  }
  read_weights(&layer, layer.others[1]);
  read_bias(&layer, taken);
  add_readers(&layer, taken);
  return found;
}

Estimates estimates_of(const IntegerLayer& layer) {
  const std::optional<ConvProblem> problem = problem_of(layer);
  if (!problem) return {};
  return layer.attributes.op == ConvOp::kConv ? estimates_of_conv(*problem) : estimates_of_transposed(layer, *problem);
}

QuantizedInputs constants_of(const IntegerLayer& layer, OwnTensors* tensors) {
  QuantizedInputs inputs;
  const auto add_floats = [&](size_t index, const std::vector<float>& numbers) {
    inputs.values[index] =
        tensors->add({static_cast<int64_t>(numbers.size())}, numbers.size() * sizeof(float), numbers.data());
  };
  const auto add_zero = [&](size_t index, int64_t zero) {
    const auto byte = static_cast<uint8_t>(zero);  // the bits of an int8, too
    inputs.values[index] = tensors->add({}, sizeof byte, &byte);
  };
  const TensorView w = *layer.w.constant();
  const Shape dims = w.dims.copy();
  const int64_t count = product_of(dims.data(), static_cast<int>(dims.size()));
  inputs.values[QuantizedInputs::kW] = tensors->add(dims, static_cast<size_t>(count), w.data);
  add_floats(QuantizedInputs::kXScale, layer.of_x.scales);
  add_zero(QuantizedInputs::kXZero, layer.of_x.zero);
  add_floats(QuantizedInputs::kWScale, layer.of_w.scales);
  add_zero(QuantizedInputs::kWZero, layer.of_w.zero);
  add_floats(QuantizedInputs::bias(layer.op), layer.bias);
  if (layer.op == QuantizedOp::kToFloat) return inputs;
  add_floats(QuantizedInputs::kYScale, layer.of_y.scales);
  add_zero(QuantizedInputs::kYZero, layer.of_y.zero);
  return inputs;
}

}  // namespace ortconv::ep

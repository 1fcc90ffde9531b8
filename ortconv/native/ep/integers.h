// A Conv or ConvTranspose of dequantized 8-bit integers and the nodes around it, which become one node of integers:
// layers as ortconv/passes/quantization/transposed_layers.py reads them, whose weights, scales and zero points are
// constant, and whose axes are in ONNX's order.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "ep/cost.h"
#include "ep/graph.h"
#include "ep/own_tensors.h"
#include "ops/conv_params.h"
#include "ort/quantized_convolution/inputs.h"

namespace ortconv::ep {

// scale * (integers - zero).
struct Quantization {
  DataType type = DataType::kUint8;
  std::vector<float> scales;
  int64_t zero = 0;  // one for all
};

struct IntegerLayer {
  Node node;
  ConvAttributes attributes = {};
  QuantizedOp op = QuantizedOp::kToFloat;
  Value x = {}, w = {}, output = {};
  Quantization of_x = {}, of_w = {}, of_y = {};  // of_w has a scale for each output channel, of_y is that of kQuantized
  std::vector<float> bias = {};
  std::vector<Node> others = {};       // that become one with the node
  std::vector<std::string> kept = {};  // what follows and does not, and why
};

// Whether a node is one of these two.
bool is_integer_candidate(const Node& node);

// By the ids of layers: the estimates of those whose sizes are known, and which of them are estimated to take less time
// than in ONNX Runtime.
struct ChosenConvs {
  std::map<size_t, Estimates> known;
  std::set<size_t> faster;
};

// None where the data of such a node are not dequantized. Throws Error where they are, and the layer is not one of
// integers; the message says why. `taken` are nodes of others, by their ids. Where it is given which are `chosen`,
// another is none either, but a ConvTranspose of unknown sizes.
std::optional<IntegerLayer> read_integers(const Node& node, const std::set<size_t>& taken = {},
                                          const ChosenConvs* chosen = nullptr);

ChosenConvs choose_quantized_convs(const std::vector<Node>& nodes);

// None where its sizes are not known. ONNX Runtime's are those of its floats, with all nodes of the layer, and of a
// Conv those of its QLinearConv.
Estimates estimates_of(const IntegerLayer& layer);

// Copies of all that a layer reads but its data.
QuantizedInputs constants_of(const IntegerLayer& layer, OwnTensors* tensors);

}  // namespace ortconv::ep

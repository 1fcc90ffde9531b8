// A ConvTranspose of a graph and its neighbours that become one node with it, as in ortconv/optimizer.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ep/graph.h"
#include "ep/own_tensors.h"
#include "ep/standard_convs.h"
#include "ops/conv_params.h"
#include "ort/convolution/inputs.h"

namespace ortconv::ep {

// What the node computes is in `conv`; its weights are multiplied by `factor` first.
struct Group {
  Node node;
  DataType dtype;
  ConvTranspose conv;
  Value x, w, bias, residual, output;
  int64_t channels = 0;                         // of the output; 0: not known
  std::vector<double> factor;                   // of each output channel; empty: ones
  std::optional<std::vector<double>> constant;  // the bias in place of `bias`
  // Spatial sizes of the output for the smallest x; those of every x where they are exact.
  Shape least;
  std::vector<bool> is_exact;
  std::vector<Node> others;       // that were fused
  std::vector<std::string> kept;  // neighbours that were not, and why

  Group(const Node& conv_transpose, DataType type) : node(conv_transpose), dtype(type) {}

  size_t ndims() const { return conv.attributes.strides.size(); }
  std::vector<Node> nodes() const;
};

// Reads a ConvTranspose, and no neighbours. Throws Error where it is not computed here; the message says why.
Group read_group(const Node& node);

// Whether the sizes that are stated of the result, if any are, are those that it has: ONNX's shape inference is wrong
// for some paddings, and then for all that follows.
bool is_stated_rightly(const Group& group);

// Fuses what neighbours it can, but for nodes of other groups, by their ids.
void fuse_neighbours(Group* group, const std::set<size_t>& taken = {});

// The sizes of all runs where they are known, but for weights that are constant.
std::optional<Sizes> sizes_of(const Group& group);

// Whether a node is another provider's, or among those that are claimed.
bool is_taken(const Node& node, const std::set<size_t>& taken);

// Copies of what a group reads of constants.
ConvInputs constants_of(const Group& group, OwnTensors* tensors);

}  // namespace ortconv::ep

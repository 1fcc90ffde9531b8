// What each neighbour of a ConvTranspose does to the node. A rule changes the group, or throws Error with the reason
// why the neighbour stays as it is.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include "base/error.h"
#include "ep/activations.h"
#include "ep/group.h"
#include "ep/numbers.h"

namespace ortconv::ep {
namespace {

using Numbers64 = std::vector<double>;
using Ints = std::vector<int64_t>;

constexpr int64_t kEndless = (int64_t{1} << 31) - 1;  // no size reaches this: up to the end

Ints required_ints(const Value& value, const char* what) {
  const auto found = integers_of(value);
  if (!found) fail("its ", what, " are not constant");
  return *found;
}

// The permutation that does two, one after the other.
Ints then(const Ints& first, const Ints& second) {
  Ints both;
  for (const int64_t axis : second) both.push_back(first[axis]);
  return both;
}

Ints perm_of(const Node& transpose, size_t rank) {
  Ints perm(rank);
  std::iota(perm.rbegin(), perm.rend(), int64_t{0});
  perm = NodeAttributes(transpose).integers("perm").value_or(perm);
  Ints sorted = perm;
  std::sort(sorted.begin(), sorted.end());
  for (size_t i = 0; i < sorted.size(); ++i) {
    if (sorted.size() != rank || sorted[i] != static_cast<int64_t>(i)) fail("its perm is ", to_string(perm));
  }
  return perm;
}

// The axes that a Slice or Pad names, all by default, as axes of the result before its transposition: batch, channels,
// spatial ones.
Ints logical_axes(const Group& group, const Value& axes, size_t count) {
  const auto rank = static_cast<int64_t>(group.ndims() + 2);
  Ints named(count);
  std::iota(named.begin(), named.end(), int64_t{0});
  if (axes) named = required_ints(axes, "axes");
  Ints logical;
  for (const int64_t axis : named) {
    if (named.size() != count || axis < -rank || axis >= rank) fail("its axes are ", to_string(named));
    logical.push_back(group.conv.attributes.y_perm[(axis + rank) % rank]);
  }
  return logical;
}

void require_no_residual(const Group& group) {
  if (group.residual) fail("it stands behind an Add of ", group.residual.name(), ", which ours reads as it lies");
}

void require_no_activation(const Group& group) {
  if (!group.conv.attributes.activation.is_identity()) fail("there is an activation already");
}

void require_pads(const Group& group) {
  if (!group.conv.output_shape.empty()) fail("the padding of a node with an output_shape follows from that size");
}

// Takes positions off the result of every x.
void crop(Group* group, const Ints& begin, const Ints& end) {
  ConvAttributes& a = group->conv.attributes;
  for (size_t i = 0; i < begin.size(); ++i) {
    if (group->least[i] < begin[i] + end[i]) fail("it takes off more than a small input gives");
  }
  for (size_t i = 0; i < begin.size(); ++i) {
    if (begin[i] + end[i] == 0) continue;
    require_pads(*group);
    a.pads[i] += begin[i], a.pads[i + begin.size()] += end[i];
    group->least[i] -= begin[i] + end[i];
  }
}

void fuse_transpose(Group* group, const Node& node) {
  require_no_residual(*group);
  Ints& perm = group->conv.attributes.y_perm;
  perm = then(perm, perm_of(node, group->ndims() + 2));
}

void fuse_slice(Group* group, const Node& node) {
  require_no_residual(*group);
  if (node.since_version() < 10) fail("its bounds are attributes");
  const Ints starts = required_ints(node.input(1), "starts"), ends = required_ints(node.input(2), "ends");
  const Ints axes = logical_axes(*group, node.input(3), starts.size());
  if (ends.size() != starts.size()) fail("it has ", starts.size(), " starts and ", ends.size(), " ends");
  if (const Value steps = node.input(4)) {
    for (const int64_t step : required_ints(steps, "steps")) {
      if (step != 1) fail("its steps are not 1");
    }
  }
  Ints begin(group->ndims()), end(group->ndims());
  for (size_t i = 0; i < axes.size(); ++i) {
    int64_t start = starts[i];
    if (axes[i] < 2) {
      if (start != 0 || ends[i] < kEndless) fail("it slices batch or channels");
      continue;
    }
    const size_t at = static_cast<size_t>(axes[i]) - 2;
    const int64_t size = group->least[at];
    const auto require_size = [&] {
      if (!group->is_exact[at]) fail("it needs a size that is not known");
    };
    if (start < 0) require_size(), start = std::max<int64_t>(size + start, 0);
    begin[at] = start;
    if (ends[i] < 0) {
      end[at] = -ends[i];
    } else if (ends[i] < kEndless) {
      require_size(), end[at] = std::max<int64_t>(size - ends[i], 0);
    }
  }
  crop(group, begin, end);
}

// What a Pad appends is zero; so it has to be in ours, beyond the full result.
void require_zeros(const Group& group, size_t axis) {
  const ConvAttributes& a = group.conv.attributes;
  const auto bias = group.constant ? group.constant : group.bias ? numbers_of(group.bias) : Numbers64();
  if (!bias || std::any_of(bias->begin(), bias->end(), [](double v) { return v != 0; })) {
    fail("what it appends is zero, ours has the bias there, too");
  }
  if (a.activation.minimum > 0 || a.activation.maximum < 0) fail("what it appends is zero, ours would clip that, too");
  if (a.pads[axis + group.ndims()] > a.output_padding[axis]) {
    fail("what it appends is zero, ours has the positions there that pads took off");
  }
}

void fuse_pad(Group* group, const Node& node) {
  require_no_residual(*group);
  require_pads(*group);
  const std::string mode = NodeAttributes(node).text("mode").value_or("constant");
  if (mode != "constant") fail("its mode is ", mode);
  if (node.since_version() < 11) fail("its pads are attributes");
  const Ints pads = required_ints(node.input(1), "pads");
  const Ints axes = logical_axes(*group, node.input(3), pads.size() / 2);
  Ints begin(group->ndims()), end(group->ndims()), more(group->ndims());
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t front = pads[i], back = pads[i + axes.size()];
    if (axes[i] < 2) {
      if (front != 0 || back != 0) fail("it pads batch or channels");
      continue;
    }
    const size_t at = static_cast<size_t>(axes[i]) - 2;
    if (front > 0) fail("it puts ", front, " positions in front");
    begin[at] = -front, end[at] = std::max<int64_t>(-back, 0), more[at] = std::max<int64_t>(back, 0);
    if (more[at] != 0) require_zeros(*group, at);
  }
  if (const Value value = node.input(2); value && std::any_of(more.begin(), more.end(), [](int64_t n) { return n; })) {
    const auto number = numbers_of(value);
    if (!number || number->size() != 1 || number->front() != 0) fail("its value is not a constant zero");
  }
  crop(group, begin, end);
  for (size_t i = 0; i < more.size(); ++i) {
    group->conv.attributes.output_padding[i] += more[i];
    group->least[i] += more[i];
  }
}

// Of each channel: factor * c + term.
struct Affine {
  Numbers64 factor, term;
};

Affine normalization(const Group& group, const Node& node) {
  if (node.since_version() < 9) fail("its version is ", node.since_version());
  const NodeAttributes attributes(node);
  const std::vector<Value> outputs = node.outputs();
  const bool has_statistics =
      std::any_of(outputs.begin() + 1, outputs.end(), [](const Value& value) { return static_cast<bool>(value); });
  if (has_statistics || attributes.integer("training_mode").value_or(0) != 0) fail("it is in training mode");
  if (group.conv.attributes.y_perm[1] != 1) fail("it normalizes a spatial axis");
  std::vector<Numbers64> of_channels;
  for (size_t i = 1; i < 5; ++i) {
    const auto numbers = numbers_of(node.input(i));
    if (!numbers || static_cast<int64_t>(numbers->size()) != group.channels) fail("its input ", i, " is not constant");
    of_channels.push_back(*numbers);
  }
  const double epsilon = attributes.number("epsilon").value_or(1e-5f);
  Affine found;
  for (size_t c = 0; c < of_channels[0].size(); ++c) {
    found.factor.push_back(of_channels[0][c] / std::sqrt(of_channels[3][c] + epsilon));
    found.term.push_back(of_channels[1][c] - of_channels[2][c] * found.factor[c]);
  }
  return found;
}

// That of arithmetic with a constant per channel; none where it is anything else.
std::optional<Affine> arithmetic(const Group& group, const Node& node) {
  const bool is_first = node.input(0) == group.output;
  const Value other = node.input(is_first ? 1 : 0);
  const auto numbers = numbers_of(other);
  if (!numbers) return std::nullopt;
  const size_t rank = group.ndims() + 2;
  Shape dims = other.constant()->dims.copy();
  if (dims.size() > rank) return std::nullopt;
  dims.insert(dims.begin(), rank - dims.size(), 1);
  for (size_t axis = 0; axis < rank; ++axis) {
    const bool is_channel = group.conv.attributes.y_perm[axis] == 1;
    if (dims[axis] != 1 && (!is_channel || dims[axis] != group.channels)) return std::nullopt;
  }
  const std::string op = node.op_type();
  if (op == "Div" && !is_first) fail("it divides by the result");
  Affine found;
  for (size_t c = 0; c < static_cast<size_t>(group.channels); ++c) {
    const double value = (*numbers)[numbers->size() == 1 ? 0 : c];
    const bool adds = op == "Add" || op == "Sub";
    found.factor.push_back(op == "Mul" ? value : op == "Div" ? 1 / value : op == "Sub" && !is_first ? -1 : 1);
    found.term.push_back(!adds ? 0 : op == "Sub" && is_first ? -value : value);
  }
  return found;
}

struct Limits {
  double most, least_normal;
};

Limits limits_of(DataType dtype) {
  if (dtype == DataType::kFloat16) return {65504, 0x1p-14};
  if (dtype == DataType::kBfloat16) return {0x1.FEp127, 0x1p-126};
  if (dtype == DataType::kFloat) return {std::numeric_limits<float>::max(), std::numeric_limits<float>::min()};
  return {std::numeric_limits<double>::max(), std::numeric_limits<double>::min()};
}

// Refuses factors with which weights would leave the range where their type has its full precision.
void require_exact(const Group& group, const Numbers64& factor) {
  const auto weights = numbers_of(group.w);
  if (!weights) fail("the weights, ", group.w.name(), ", are not constant");
  const Shape dims = group.w.constant()->dims.copy();
  const int64_t groups = group.conv.attributes.group, of_group = dims[1];
  if (dims[0] % groups != 0) fail("the weights do not have the channels of ", groups, " groups");
  Numbers64 largest(factor.size());
  const int64_t taps = std::accumulate(dims.begin() + 2, dims.end(), int64_t{1}, std::multiplies<int64_t>());
  for (size_t i = 0; i < weights->size(); ++i) {
    const int64_t row = static_cast<int64_t>(i) / taps, in = row / of_group;
    const auto c = static_cast<size_t>(in / (dims[0] / groups) * of_group + row % of_group);
    largest[c] = std::max(largest[c], std::abs((*weights)[i]));
  }
  const Limits limits = limits_of(group.dtype);
  for (size_t c = 0; c < factor.size(); ++c) {
    if (!std::isfinite(factor[c])) fail("a factor is not a finite number");
    const double product = largest[c] * std::abs(factor[c]);
    if (product > limits.most || (product > 0 && product < limits.least_normal)) {
      fail("weights times its factors would leave the range of their type");
    }
  }
}

void apply(Group* group, const Affine& affine) {
  if (group->residual) fail("it stands behind an Add of ", group->residual.name(), "; ours adds its bias before that");
  require_no_activation(*group);
  Numbers64 bias(affine.factor.size());
  if (group->constant) {
    bias = *group->constant;
  } else if (group->bias) {
    const auto numbers = numbers_of(group->bias);
    if (!numbers || numbers->size() != bias.size()) fail("there is a bias already, which is not constant");
    bias = *numbers;
  }
  Numbers64 factor = group->factor.empty() ? Numbers64(bias.size(), 1) : group->factor;
  bool scales = !group->factor.empty();
  for (size_t c = 0; c < bias.size(); ++c) {
    bias[c] = bias[c] * affine.factor[c] + affine.term[c];
    factor[c] *= affine.factor[c];
    scales = scales || affine.factor[c] != 1;
    if (!(std::abs(bias[c]) <= limits_of(group->dtype).most)) fail("the bias would not be a finite number");
  }
  if (scales) {
    require_exact(*group, factor);
    group->factor = factor;
  }
  group->constant = bias;
}

// Whether what is added certainly has the shape of the result.
bool has_same_shape(const Group& group, const Value& residual) {
  const TensorType x = group.x.type(), other = residual.type();
  const ConvAttributes& a = group.conv.attributes;
  if (!x.dims || !other.dims || other.dims->size() != a.y_perm.size()) return false;
  for (size_t axis = 0; axis < a.y_perm.size(); ++axis) {
    const int64_t logical = a.y_perm[axis], size = (*other.dims)[axis];
    if (logical == 0) {
      const auto batch = static_cast<size_t>(a.x_perm[0]);
      const int64_t mine = (*x.dims)[batch];
      if (mine != size || (mine < 0 && (x.names[batch].empty() || x.names[batch] != other.names[axis]))) return false;
    } else if (logical == 1) {
      if (size != group.channels) return false;
    } else if (!group.is_exact[logical - 2] || size != group.least[logical - 2]) {
      return false;
    }
  }
  return true;
}

void fuse_arithmetic(Group* group, const Node& node) {
  if (group->channels == 0) fail("the number of channels is not known");
  if (const auto affine = arithmetic(*group, node)) return apply(group, *affine);
  if (node.op_type() != "Add") fail("it has no constant per channel");
  if (group->residual) fail("there is a residual already");
  require_pads(*group);
  require_no_activation(*group);
  const Value residual = node.input(node.input(0) == group->output ? 1 : 0);
  if (!has_same_shape(*group, residual)) {
    fail(residual.name(), " is not known to have the shape of ", group->output.name());
  }
  group->residual = residual;
  group->conv.attributes.op = ConvOp::kConvTransposeAdd;
}

void fuse_normalization(Group* group, const Node& node) {
  if (group->channels == 0) fail("the number of channels is not known");
  apply(group, normalization(*group, node));
}

void fuse_activation(Group* group, const Node& node) {
  if (group->dtype == DataType::kDouble) fail("ours of float64 has no activation");
  add_activation(&group->conv.attributes.activation, node);
}

struct Rule {
  const char* op_type;
  void (*fuse)(Group*, const Node&);
};
constexpr Rule kRules[] = {
    {"Transpose", fuse_transpose},
    {"Slice", fuse_slice},
    {"Pad", fuse_pad},
    {"Add", fuse_arithmetic},
    {"Sub", fuse_arithmetic},
    {"Mul", fuse_arithmetic},
    {"Div", fuse_arithmetic},
    {"Relu", fuse_activation},
    {"LeakyRelu", fuse_activation},
    {"Clip", fuse_activation},
    {"BatchNormalization", fuse_normalization},
};

// Runs a rule; whether it applied. What it refuses is noted.
template <class Fn>
bool try_rule(Group* group, const Node& node, Fn rule) {
  try {
    rule();
  } catch (const Error& reason) {
    group->kept.push_back(node.op_type() + " " + node.name() + ": " + reason.what());
    return false;
  }
  group->others.push_back(node);
  return true;
}

void fuse_data(Group* group, const std::set<size_t>& taken) {
  const std::optional<Node> node = group->x.producer();
  if (!node || !node->is("Transpose") || is_taken(*node, taken)) return;
  if (group->x.is_graph_output() || group->x.consumers().size() != 1) return;
  try_rule(group, *node, [&] {
    Ints& perm = group->conv.attributes.x_perm;
    perm = then(perm_of(*node, group->ndims() + 2), perm);
    group->x = node->input(0);
  });
}

// Fuses the node that reads the result; false where it stays.
bool fuse_reader(Group* group, const std::set<size_t>& taken) {
  const std::vector<Node> readers = group->output.consumers();
  if (readers.size() != 1 || group->output.is_graph_output() || is_taken(readers[0], taken)) return false;
  const Node& node = readers[0];
  for (const Rule& rule : kRules) {
    if (!node.is(rule.op_type)) continue;
    if (!try_rule(group, node, [&] { rule.fuse(group, node); })) return false;
    group->output = node.outputs().at(0);
    return true;
  }
  return false;
}

}  // namespace

void fuse_neighbours(Group* group, const std::set<size_t>& taken) {
  fuse_data(group, taken);
  while (fuse_reader(group, taken)) {
  }
}

}  // namespace ortconv::ep

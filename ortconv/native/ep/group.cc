#include "ep/group.h"

#include <algorithm>

#include "base/error.h"
#include "base/math.h"
#include "ep/numbers.h"
#include "ep/provider.h"

namespace ortconv::ep {
namespace {

bool is_float_type(int type) {
  for (const DataType each : {DataType::kFloat, DataType::kFloat16, DataType::kBfloat16, DataType::kDouble}) {
    if (type == static_cast<int>(each)) return true;
  }
  return false;
}

// The sizes of a value: of its data if it is constant, else those that are stated. None: not even the rank is known.
std::optional<Shape> dims_of(const Value& value) {
  if (const auto data = value.constant()) return data->dims.copy();
  return value.type().dims;
}

}  // namespace

std::vector<Node> Group::nodes() const {
  std::vector<Node> all = others;
  all.push_back(node);
  return all;
}

Group read_group(const Node& node) {
  const Value x = node.input(0), w = node.input(1);
  if (!x || !w) fail("an input is missing");
  const int type = w.type().type;
  if (!is_float_type(type)) fail("its element type is ", type, "; allowed: 1, 10, 11, 16");
  Group group(node, static_cast<DataType>(type));
  const auto w_dims = dims_of(w);
  if (!w_dims) fail("the number of axes of its weights is not known");
  group.conv = read_conv_transpose(NodeAttributes(node), *w_dims, group.dtype);
  group.x = x, group.w = w, group.bias = node.input(2), group.output = node.outputs().at(0);
  const ConvAttributes& a = group.conv.attributes;
  if ((*w_dims)[1] > 0) group.channels = (*w_dims)[1] * a.group;
  const size_t ndims = group.ndims();
  auto x_dims = dims_of(x).value_or(Shape(ndims + 2, -1));
  if (x_dims.size() != ndims + 2) fail("its data have ", x_dims.size(), " axes, its weights ", w_dims->size());
  for (size_t i = 0; i < ndims; ++i) {
    const int64_t size = x_dims[i + 2], taps = (*w_dims)[i + 2];
    group.is_exact.push_back(!group.conv.output_shape.empty() || (size > 0 && taps > 0));
    if (!group.conv.output_shape.empty()) {
      group.least.push_back(group.conv.output_shape[i]);
      continue;
    }
    const int64_t extent = (std::max<int64_t>(taps, 1) - 1) * a.dilations[i] + 1;
    group.least.push_back((std::max<int64_t>(size, 1) - 1) * a.strides[i] + extent + a.output_padding[i] - a.pads[i] -
                          a.pads[i + ndims]);
  }
  return group;
}

bool is_stated_rightly(const Group& group) {
  const auto stated = group.output.type().dims;
  if (!stated || stated->size() != group.ndims() + 2) return true;
  for (size_t i = 0; i < group.ndims(); ++i) {
    const int64_t size = (*stated)[i + 2];
    if (size >= 0 && group.is_exact[i] && size != group.least[i]) return false;
  }
  return true;
}

std::optional<Sizes> sizes_of(const Group& group) {
  const auto known = [](const Value& value) -> std::optional<Shape> {
    auto dims = dims_of(value);
    if (!dims || std::any_of(dims->begin(), dims->end(), [](int64_t size) { return size < 0; })) return std::nullopt;
    return dims;
  };
  Sizes sizes;
  const auto x = known(group.x);
  if (!x) return std::nullopt;
  sizes.x = *x;
  if (!group.w.constant()) {
    sizes.w = known(group.w);
    if (!sizes.w) return std::nullopt;
  }
  if (group.residual) {
    sizes.residual = known(group.residual);
    if (!sizes.residual) return std::nullopt;
  }
  if (group.constant) {
    sizes.b = Shape{static_cast<int64_t>(group.constant->size())};
  } else if (group.bias) {
    sizes.b = known(group.bias);
    if (!sizes.b) return std::nullopt;
  }
  if (!group.conv.output_shape.empty()) sizes.output_shape = group.conv.output_shape;
  return sizes;
}

bool is_taken(const Node& node, const std::set<size_t>& taken) {
  const std::string provider = node.provider();
  return (!provider.empty() && provider != kProviderName) || taken.count(node.id()) != 0;
}

ConvInputs constants_of(const Group& group, OwnTensors* tensors) {
  ConvInputs inputs;
  const auto size = [&](const Shape& dims) {
    return static_cast<size_t>(product_of(dims.data(), static_cast<int>(dims.size()))) * size_of(group.dtype);
  };
  const auto take = [&](const Value& value) -> std::optional<TensorView> {
    const auto data = value.constant();
    if (!data) return data;
    const Shape dims = data->dims.copy();
    return tensors->add(dims, size(dims), data->data);
  };
  inputs.x = take(group.x);
  inputs.residual = take(group.residual);
  inputs.w = take(group.w);
  if (!group.factor.empty()) {
    const Shape dims = group.w.constant()->dims.copy();
    with_type(group.dtype, [&](auto zero) {
      using T = decltype(zero);
      T* const w = static_cast<T*>(inputs.w->data);
      const int64_t of_group = group.channels / group.conv.attributes.group;
      const int64_t taps = product_of(dims.data() + 2, static_cast<int>(dims.size()) - 2);
      const int64_t inputs = std::max<int64_t>(dims[0] / group.conv.attributes.group, 1);  // of each group
      for (int64_t i = 0; i < dims[0] * of_group * taps; ++i) {
        const int64_t row = i / taps, in = row / of_group;
        const double factor = group.factor[in / inputs * of_group + row % of_group];
        w[i] = rounded_to<T>(to_double(w[i]) * factor);
      }
    });
  }
  if (group.constant) {
    const Shape dims{static_cast<int64_t>(group.constant->size())};
    with_type(group.dtype, [&](auto zero) {
      using T = decltype(zero);
      std::vector<T> bias;
      for (const double each : *group.constant) bias.push_back(rounded_to<T>(each));
      inputs.b = tensors->add(dims, size(dims), bias.data());
    });
  } else {
    inputs.b = take(group.bias);
  }
  return inputs;
}

}  // namespace ortconv::ep

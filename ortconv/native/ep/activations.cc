#include "ep/activations.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "base/error.h"
#include "ep/numbers.h"

namespace ortconv::ep {

void add_activation(Activation* activation, const Node& node) {
  const NodeAttributes attributes(node);
  const std::string op = node.op_type();
  if (op == "LeakyRelu") {
    if (!activation->is_identity()) fail("there is an activation already");
    const float slope = attributes.number("alpha").value_or(0.01f);
    if (!std::isfinite(slope)) fail("its alpha is not a finite number");
    activation->slope = slope;
    return;
  }
  float low = 0, high = std::numeric_limits<float>::infinity();
  if (op == "Clip") {
    const auto bound = [&](size_t index, const char* name, float otherwise) {
      if (node.since_version() < 11) return attributes.number(name).value_or(otherwise);
      const Value value = node.input(index);
      if (!value) return otherwise;
      const auto number = numbers_of(value);
      if (!number || number->size() != 1 || std::isnan(number->front())) fail("its ", name, " is not constant");
      return static_cast<float>(number->front());
    };
    low = bound(1, "min", -high), high = bound(2, "max", high);
  }
  low = std::max(low, activation->minimum), high = std::min(high, activation->maximum);
  if (!(low <= high)) fail("no number is at least ", low, " and at most ", high);
  activation->minimum = low, activation->maximum = high;
}

}  // namespace ortconv::ep

// Relu, LeakyRelu and Clip as what becomes of every element of a result.
#pragma once

#include "base/activation.h"
#include "ep/graph.h"

namespace ortconv::ep {

// Puts that of a node behind what there is. Throws Error where both are not one.
void add_activation(Activation* activation, const Node& node);

}  // namespace ortconv::ep

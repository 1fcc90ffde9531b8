// A file that says what becomes of the nodes that this provider looks at.
#pragma once

#include <string>
#include <vector>

#include "ep/cost.h"
#include "ep/graph.h"

namespace ortconv::ep {

struct Outcome {
  std::vector<Node> fused;        // with the node
  std::vector<std::string> kept;  // neighbours that stay, and why
  std::string reason;             // why the node stays; empty: it is claimed
  Estimates estimates;            // of the node without neighbours
};

// Appends a line of JSON to the file. Does nothing without one.
void report(const std::string& file, const Node& node, const Outcome& outcome);

}  // namespace ortconv::ep

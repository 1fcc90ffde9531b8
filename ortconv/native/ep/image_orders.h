// Which quantized Convs of a graph ours computes in less time than ONNX Runtime's QLinearConv.
//
// QLinearConv holds images with their channels last, ours with their channels first. Where both follow each other, ONNX
// Runtime transposes the image between them. So a Conv is not looked at alone.
#pragma once

#include <cstddef>
#include <set>
#include <vector>

#include "base/problem.h"
#include "ep/graph.h"

namespace ortconv::ep {

struct QuantizedConv {
  Node node;
  Value x, y;  // integers
  ConvProblem problem;
  double ours, onnxruntime;  // nanoseconds
};

// The ids of those that ours computes.
std::set<size_t> faster_convs(const std::vector<QuantizedConv>& convs);

}  // namespace ortconv::ep

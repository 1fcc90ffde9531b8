// Which quantized Convs and ConvTransposes of a graph ours computes in less time than ONNX Runtime.
//
// QLinearConv holds images with their channels last, ours with their channels first. Where both follow each other, ONNX
// Runtime transposes the image between them. On x86-64 it has no QLinearConv of int8 data, but makes them uint8 where
// both the QuantizeLinear and the DequantizeLinear are its own: a Conv next to one of ours stays in floats. So none is
// looked at alone.
#pragma once

#include <cstddef>
#include <set>
#include <vector>

#include "base/problem.h"
#include "ep/graph.h"

namespace ortconv::ep {

struct QuantizedConv {
  Node node;
  Value x, y;          // integers; y of a ConvTranspose may be floats
  bool is_transposed;  // ONNX Runtime's is one of floats
  bool x_is_int8, y_is_int8;
  ConvProblem problem;
  double ours, onnxruntime;  // nanoseconds
};

// The ids of those that ours computes.
std::set<size_t> faster_convs(const std::vector<QuantizedConv>& convs);

}  // namespace ortconv::ep

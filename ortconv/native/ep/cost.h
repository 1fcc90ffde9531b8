// What ONNX Runtime's own kernel takes.
#pragma once

#include <cstddef>

#include "base/problem.h"

namespace ortconv::ep {

// Nanoseconds of a run on one thread; 0 where they are not known.
struct Estimates {
  double ours = 0, onnxruntime = 0;
  double neighbour = 0;  // of ONNX Runtime, for each neighbour that ours has fused
};

// Whether ours is estimated to be so much faster that the node is claimed.
bool is_faster(const Estimates& estimates, size_t neighbours);
// Throws Error where ours is estimated to be so much slower that the node stays with ONNX Runtime.
void require_faster(const Estimates& estimates, size_t neighbours);

// Nanoseconds that its ConvTranspose of floats is estimated to take on one thread: for each image and group a product
// of matrices, whose result is added up row by row.
double onnxruntime_nanoseconds(const ConvProblem& problem);
// The same for its QLinearConv, which has channels last.
double qlinear_conv_nanoseconds(const ConvProblem& problem);
// The same for a Transpose of bytes.
double transpose_nanoseconds(double count);
// The same for an activation or arithmetic behind it.
double neighbour_nanoseconds(const ConvProblem& problem);
// The same for a DequantizeLinear of its data and weights, and a QuantizeLinear of its result.
double dequantize_nanoseconds(const ConvProblem& problem);
double quantize_nanoseconds(const ConvProblem& problem);

}  // namespace ortconv::ep

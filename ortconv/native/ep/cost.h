// What ONNX Runtime's own kernel takes.
#pragma once

#include "base/problem.h"

namespace ortconv::ep {

// Nanoseconds of a run on one thread; 0 where they are not known.
struct Estimates {
  double ours = 0, onnxruntime = 0;
};

// Nanoseconds that its ConvTranspose of floats is estimated to take on one thread: for each image and group a product
// of matrices, whose result is added up position by position.
double onnxruntime_nanoseconds(const ConvProblem& problem);

}  // namespace ortconv::ep

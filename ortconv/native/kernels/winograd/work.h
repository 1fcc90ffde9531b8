// What a run would have to do, so that its time can be estimated.
#pragma once

#include "kernels/winograd/geometry.h"

namespace ortconv::kernels::winograd {

// What takes the time, in vectors of 16 floats.
struct Work {
  double products = 0;  // multiplied and added
  double pieces = 0;    // of sums that are put aside
  double source = 0;    // points of the transformed src
  double split = 0;     // pieces of rows of src that are cut into windows
  double results = 0;   // points of the products
  double stores = 0;    // of rows of dst
  double shuffled = 0;  // of these, with more phases than there are kernels for
  double weights = 0;   // read from beyond L2
};

Work work_of(const Plan& plan, const ConvProblem& full);

}  // namespace ortconv::kernels::winograd

// What a run would cost, so that the faster way can be chosen.
#pragma once

#include "kernels/winograd/geometry.h"

namespace ortconv::kernels::winograd {

// What takes the time, in vectors of 16 floats.
struct Work {
  double products = 0;         // multiplied and added
  double source = 0;           // points of the transformed src
  double split = 0;            // pieces of rows of src that are cut into windows
  double results = 0;          // points of the products
  double stores = 0;           // of rows of dst, either way
  double weights = 0;          // read from beyond L2
  double direct_products = 0;  // of the direct way
  double direct_tiles = 0;     // or multiplied in parts, tile by tile: what these cost
  double direct_weights = 0;
};

Work work_of(const Plan& plan, const ConvProblem& full, const ArchFlags& arch);

}  // namespace ortconv::kernels::winograd

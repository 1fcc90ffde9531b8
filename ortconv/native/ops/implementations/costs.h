// How long each unit of work takes in each way to compute convolutions.
#pragma once

#include "base/arch.h"
#include "base/dtype.h"
#include "ops/implementations/work.h"

namespace ortconv::implementations {

// The rows of the tables.
enum class Way {
  kWinograd,
  kDepthToSpace,
  kDisjointWindows,
  kSlidingRows,
  kTapwise,
  kChannelLanes,
  kDepthwise,
  kPhases,
  kGemmCol2im,
  kColumns,
  kIm2col,
  kCol2im,
};

// Nanoseconds that a run is estimated to take on one thread.
double estimate(Way way, const Work& work, DataType dtype, const ArchFlags& arch);

}  // namespace ortconv::implementations

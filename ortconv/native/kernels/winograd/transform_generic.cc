#include "kernels/winograd/transform_loops.h"

namespace ortconv::kernels::winograd {

extern const TransformKernels kTransforms_generic;
const TransformKernels kTransforms_generic = {"winograd_generic", split_loops, source_loops, result_loops, {}};

}  // namespace ortconv::kernels::winograd

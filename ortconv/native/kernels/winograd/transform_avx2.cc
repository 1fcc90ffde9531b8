#include "kernels/winograd/transform_loops.h"

namespace ortconv::kernels::winograd {

extern const TransformKernels kTransforms_avx2;
const TransformKernels kTransforms_avx2 = {"winograd_avx2", split_loops, source_loops, result_loops, {}};

}  // namespace ortconv::kernels::winograd

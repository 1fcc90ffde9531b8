#include "kernels/depthwise/depthwise_vectors_avx512.h"

namespace ortconv::kernels {

extern const DepthwiseKernel kDepthwise_avx512;
const DepthwiseKernel kDepthwise_avx512 = depthwise_kernel<Vectors<float>, Vectors<double>>("depthwise_avx512");

}  // namespace ortconv::kernels

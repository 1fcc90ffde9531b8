#include "kernels/depthwise/depthwise_vectors_avx512.h"

namespace ortconv::kernels {

extern const DepthwiseKernel kDepthwise_avx512_bf16;
const DepthwiseKernel kDepthwise_avx512_bf16 =
    depthwise_kernel<Vectors<float>, Vectors<double>>("depthwise_avx512_bf16");

}  // namespace ortconv::kernels

#include "kernels/depthwise/depthwise_avx512.h"
#include "kernels/depthwise/depthwise_vectors_avx512.h"

namespace ortconv::kernels {

extern const DepthwiseKernel kDepthwise_avx512_bf16;
const DepthwiseKernel kDepthwise_avx512_bf16 =
    depthwise_kernel_avx512("depthwise_avx512_bf16", depthwise<Vectors<float>, Bfloat16>);

}  // namespace ortconv::kernels

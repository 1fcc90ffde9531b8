#include "kernels/depthwise/depthwise_avx512.h"

#include "kernels/depthwise/depthwise_vectors_avx512.h"

namespace ortconv::kernels {

void depthwise_avx512(const DepthwiseArgs<float>& args) { depthwise<Vectors<float>>(args); }
void depthwise_avx512(const DepthwiseArgs<double>& args) { depthwise<Vectors<double>>(args); }
void depthwise_avx512(const DepthwiseArgs<Float16>& args) { depthwise<Vectors<float>>(args); }
void channel_lanes_avx512(const ChannelLanesArgs<float>& args) { channel_lanes<Vectors<float>>(args); }
void channel_lanes_avx512(const ChannelLanesArgs<double>& args) { channel_lanes<Vectors<double>>(args); }

extern const DepthwiseKernel kDepthwise_avx512;
const DepthwiseKernel kDepthwise_avx512 =
    depthwise_kernel_avx512("depthwise_avx512", depthwise<Vectors<float>, Bfloat16>);

}  // namespace ortconv::kernels

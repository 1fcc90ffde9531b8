#if defined(__AVX512F__)

#include "kernels/depthwise/depthwise_vectors_avx512.h"

namespace ortconv::kernels {

extern const DepthwiseKernel kDepthwise_avx512;
const DepthwiseKernel kDepthwise_avx512 = {"depthwise_avx512",
                                           Vectors<float>::kLanes,
                                           Vectors<double>::kLanes,
                                           true,
                                           {depthwise<Vectors<float>, float>, depthwise<Vectors<double>, double>,
                                            depthwise<Vectors<float>, Float16>, depthwise<Vectors<float>, Bfloat16>},
                                           {channel_lanes<Vectors<float>>, channel_lanes<Vectors<double>>}};

}  // namespace ortconv::kernels

#endif

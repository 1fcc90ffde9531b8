// What AVX-512 has for its own kernel and for that of AVX512_BF16, which differs for bf16 numbers only.
#pragma once

#include "kernels/depthwise/depthwise.h"

namespace ortconv::kernels {

void depthwise_avx512(const DepthwiseArgs<float>& args);
void depthwise_avx512(const DepthwiseArgs<double>& args);
void depthwise_avx512(const DepthwiseArgs<Float16>& args);
void channel_lanes_avx512(const ChannelLanesArgs<float>& args);
void channel_lanes_avx512(const ChannelLanesArgs<double>& args);

namespace {

// The kernel that computes bf16 numbers by this function.
constexpr DepthwiseKernel depthwise_kernel_avx512(const char* name, DepthwiseFn<Bfloat16> bf16) {
  return {name,
          64 / sizeof(float),
          64 / sizeof(double),
          true,
          {depthwise_avx512, depthwise_avx512, depthwise_avx512, bf16},
          {channel_lanes_avx512, channel_lanes_avx512}};
}

}  // namespace

}  // namespace ortconv::kernels

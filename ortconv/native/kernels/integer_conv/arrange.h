// The first step of a convolution of 8-bit integers: copies its source to the layout of IntegerConvLayout.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/parallel.h"
#include "kernels/integer_conv/integer_conv.h"

namespace ortconv::kernels {

// How far vectors may read or write beyond the arranged source, in bytes.
constexpr int64_t kReadBeyond = 256;

// Bytes of a number where a lane does not hold several channels (depthwise).
inline int64_t number_bytes(const IntegerConvKernel& kernel) { return 4 / kernel.depth; }

// Bytes of the arranged source: `blocks` lanes of channels (or channels, where depthwise) of `lane_bytes` each, and
// kReadBeyond. A multiple of 64.
size_t arranged_bytes(const IntegerConvLayout& layout, int64_t blocks, int64_t lane_bytes);

// Arranges one image, x [channel][position]. The result is [group][lanes of channels][planes][plane].
void arrange(const ConvProblem& problem, const IntegerConvLayout& layout, const IntegerConvWeights& weights,
             const uint8_t* x, const IntegerShift& shift, uint32_t* out, const Parallel& parallel);

// Arranges one channel. The result is [planes][plane].
void arrange_channel(const IntegerConvLayout& layout, const IntegerConvKernel& kernel, const uint8_t* x,
                     const IntegerShift& shift, unsigned char* out);

}  // namespace ortconv::kernels

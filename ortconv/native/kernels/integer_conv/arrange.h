// The first step of a convolution of 8-bit integers: its source as IntegerConvLayout has it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/parallel.h"
#include "kernels/integer_conv/integer_conv.h"

namespace ortconv::kernels {

// What a vector reads or writes at most beyond what is arranged, in bytes.
constexpr int64_t kReadBeyond = 256;

// What a number takes where lanes are not shared by channels.
inline int64_t number_bytes(const IntegerConvKernel& kernel) { return 4 / kernel.depth; }

// Bytes of so many lanes of channels, or channels, with what is beyond them; a multiple of 64.
size_t arranged_bytes(const IntegerConvLayout& layout, int64_t blocks, int64_t lane_bytes);

// x is of one image, its channels one after the other. Of each group, out has [lanes of channels][planes][plane].
void arrange(const ConvProblem& problem, const IntegerConvLayout& layout, const IntegerConvWeights& weights,
             const uint8_t* x, const IntegerShift& shift, uint32_t* out, const Parallel& parallel);

// Of one channel, out has [planes][plane].
void arrange_channel(const IntegerConvLayout& layout, const IntegerConvKernel& kernel, const uint8_t* x,
                     const IntegerShift& shift, unsigned char* out);

}  // namespace ortconv::kernels

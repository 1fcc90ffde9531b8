// The first step of a convolution of 8-bit integers: its source as IntegerConvLayout has it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/integer_conv/integer_conv.h"

namespace ortconv::kernels {

// Bytes of an image in its arrangement, with what a vector reads beyond it.
size_t arranged_bytes(const ConvProblem& problem, const IntegerConvLayout& layout, const IntegerConvWeights& weights);

// x is of one image, its channels one after the other. Of each group, out has [lanes of channels][planes][plane].
void arrange(const ConvProblem& problem, const IntegerConvLayout& layout, const IntegerConvWeights& weights,
             const uint8_t* x, const IntegerShift& shift, unsigned char* out, const Parallel& parallel);

}  // namespace ortconv::kernels

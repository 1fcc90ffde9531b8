// Reads a standard ConvTranspose or Conv as ONNX Runtime does. Notation of a ConvTranspose per spatial axis: E the
// extent of the kernel with its dilation, s stride, F the full size, p output padding, Y the size of the output.
//  - NOTSET and VALID: Y = F - pads + p.
//  - SAME: max(E + p - s, 0) positions are taken off.
//  - output_shape gives Y and overrules pads: max(F + p - Y, 0) positions are taken off.
// SAME_UPPER takes the smaller half off in front, everything else the larger one.
#pragma once

#include <cstdint>
#include <vector>

#include "base/dtype.h"
#include "ep/graph.h"
#include "ops/conv_params.h"

namespace ortconv::ep {

struct ConvTranspose {
  ConvAttributes attributes;          // of TransposedConvolution, or ToShape where there is an output_shape
  std::vector<int64_t> output_shape;  // empty: none
};

// `w` has a negative size where it is not known. Throws Error where ours cannot compute the node, or ONNX Runtime
// refuses it.
ConvTranspose read_conv_transpose(const StandardAttributes& source, const Shape& w, DataType dtype);

// The same of a Conv, whose padding has to be stated.
ConvAttributes read_conv(const StandardAttributes& source, const Shape& w, DataType dtype);

}  // namespace ortconv::ep

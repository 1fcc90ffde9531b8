// Kernels of convolutions that are stated by standard nodes.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/dtype.h"
#include "ep/claims.h"
#include "ep/group.h"
#include "ep/integers.h"
#include "ep/standard_convs.h"
#include "ort/convolution/cpu.h"

namespace ortconv::ep {

// A ConvTranspose; an output_shape needs no input. `sizes` lacks it.
std::unique_ptr<Kernel> make_standard_conv(const Session& session, const std::string& subject, DataType dtype,
                                           const ConvTranspose& conv, const ConvIndices& at, ConvInputs constants,
                                           std::optional<Sizes> sizes);

// Nodes that were fused into one. `fused` has the inputs that are not constant, in ONNX Runtime's order.
std::unique_ptr<Kernel> make_group_kernel(const Session& session, const Group& group, const Node& fused);
std::unique_ptr<Kernel> make_integer_kernel(const Session& session, const IntegerLayer& layer, const Node& fused);

}  // namespace ortconv::ep

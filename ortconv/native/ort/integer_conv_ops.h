// ConvIntegerToFloat as ONNX Runtime sees it.
#pragma once

#include <memory>
#include <vector>

#include "ort/abi.h"

namespace ortconv {

// One for each provider that has it, type of X and type of W.
std::vector<std::shared_ptr<const OrtCustomOp>> integer_conv_ops(const OrtApi* api);

}  // namespace ortconv

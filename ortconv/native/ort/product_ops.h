// The products by compressed weights as ONNX Runtime sees them.
#pragma once

#include <memory>
#include <vector>

#include "ort/abi.h"
#include "ort/settings.h"

namespace ortconv {

// One of each for each provider that has it, type of the floats and type of the integers.
std::vector<std::shared_ptr<const OrtCustomOp>> product_ops(const OrtApi* api, const Settings& settings);

}  // namespace ortconv

// The op MatMulCompressed as ONNX Runtime sees it.
#pragma once

#include <memory>
#include <vector>

#include "ort/abi.h"
#include "ort/settings.h"

namespace ortconv {

// One op for each provider, type of the floats and type of the integers.
std::vector<std::shared_ptr<const OrtCustomOp>> matmul_compressed_ops(const OrtApi* api, const Settings& settings);

}  // namespace ortconv

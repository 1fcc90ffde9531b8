// The op MatMulCompressed, for ONNX Runtime's CPU provider.
#pragma once

#include <memory>
#include <vector>

#include "ort/abi.h"

namespace ortconv {

// One op for each type of the integers.
std::vector<std::shared_ptr<const OrtCustomOp>> matmul_compressed_ops(const OrtApi* api);

}  // namespace ortconv

// The execution provider of one ONNX Runtime session.
#pragma once

#include <string>

#include "ep/abi.h"
#include "ep/claims.h"

namespace ortconv::ep {

constexpr const char* kProviderName = "OrtconvExecutionProvider";

// `options` are those of the ONNX Runtime session. Throws Error where a value is not allowed. With `fuses_once`, nodes
// are fused in one graph alone: ONNX Runtime 1.24 gives those of several graphs the same name, and fails.
OrtEp* make_provider(const OrtApi* api, const OrtSessionOptions* options, bool fuses_once);
void release_provider(OrtEp* provider);

}  // namespace ortconv::ep

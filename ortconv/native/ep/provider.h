// The execution provider of one ONNX Runtime session.
#pragma once

#include <string>

#include "ep/abi.h"
#include "ep/claims.h"

namespace ortconv::ep {

constexpr const char* kProviderName = "OrtconvExecutionProvider";

// `options` are those of the ONNX Runtime session. Throws Error where a value is not allowed.
OrtEp* make_provider(const OrtApi* api, const OrtSessionOptions* options);
void release_provider(OrtEp* provider);

}  // namespace ortconv::ep

// All operators of this library.
#pragma once

#include "ort/abi/custom_op.h"
#include "ort/settings.h"

namespace ortconv {

// One for each operator, provider and element types, but for those that the settings leave to their function bodies.
CustomOps operators(const OrtApi* api, const Settings& settings);

}  // namespace ortconv

// Shape inference inside ONNX Runtime: the shapes of inputs, and what is told of the output.
#pragma once

#include <cstddef>
#include <vector>

#include "ops/conv_params.h"
#include "ort/abi/abi.h"

namespace ortconv {

// What is known of an input. Throws Error when ONNX Runtime reports one.
struct InputShape {
  int type = 0;
  Shape dims;                      // negative where unknown
  std::vector<const char*> names;  // null or empty where a dim has no symbolic name

  InputShape(const OrtApi* api, const OrtShapeInferContext* context, size_t index);

  bool has_name(size_t axis) const { return names[axis] != nullptr && names[axis][0] != '\0'; }
};

// Sets the type and shape of the only output. A dimension is a size, or has a name in `symbols`, which are empty
// otherwise.
void set_output(const OrtApi* api, OrtShapeInferContext* context, int type, const Shape& dims,
                std::vector<const char*> symbols);

// Runs `infer`, which calls set_output or throws. The shape of the output stays unknown where it throws: that is
// allowed, and creating the kernel or the run reports what is wrong, if anything is. A dimension without a name cannot
// be expressed, and an invented name might be that of another dimension.
template <class Infer>
OrtStatus* try_infer(Infer infer) {
  try {
    infer();
  } catch (...) {
  }
  return nullptr;
}

}  // namespace ortconv

// Fourier transforms of an axis on the CPU, whatever node of a graph states them.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "ort/abi/kernel.h"
#include "ort/fourier/inputs.h"

namespace ortconv {

// An input of a run; null where the node has none.
const OrtValue* input_of(const OrtApi* api, const OrtKernelContext* context, size_t index);

// The integer that an input holds, a scalar of int64; `otherwise` where it is absent. `name` is that of messages.
int64_t integer_of(const OrtApi* api, const OrtValue* input, const char* name, int64_t otherwise);

// Window and gains of short-time transforms, as numbers that the element type has. No gains: OverlapAdd.
struct StftConstants {
  std::vector<double> window, gains;
};
// ForwardSTFT, InverseSTFT and OverlapAdd of data, input 0. `subject` names the node in messages.
std::unique_ptr<Kernel> make_stft_kernel(const OrtApi* api, const std::string& subject, DataType dtype, FourierOp op,
                                         const StftAttributes& attributes, const StftConstants& constants);

// Of data, input 0, a length, input 1, and an axis in place of the attribute, input 2. `subject` names the node in
// messages.
std::unique_ptr<Kernel> make_transform_kernel(const OrtApi* api, const std::string& subject, DataType dtype,
                                              const TransformAttributes& attributes);

}  // namespace ortconv

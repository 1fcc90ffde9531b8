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

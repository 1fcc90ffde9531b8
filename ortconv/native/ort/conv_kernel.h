// The kernel object that ONNX Runtime creates for one node of ours.
#pragma once

#include <optional>
#include <string>

#include "ops/conv_params.h"
#include "ops/convolution.h"
#include "ort/abi.h"

namespace ortconv {

// Immutable after creation; any number of threads may be inside compute().
class ConvKernel {
 public:
  // Reads and checks the attributes, and packs the weights when they are constant. `subject` names the node in
  // messages.
  ConvKernel(const OrtApi* api, const OrtKernelInfo* info, ConvOp op, DataType dtype, std::string subject);

  void compute(OrtKernelContext* context) const;

  const OrtApi* api() const { return api_; }
  const std::string& subject() const { return subject_; }

 private:
  kernels::Op direction() const;

  const OrtApi* api_;
  std::string subject_;
  DataType dtype_;
  ConvAttributes attributes_;

  // For constant weights.
  ConvProblem weight_problem_;
  std::optional<Convolution> convolution_;
};

}  // namespace ortconv

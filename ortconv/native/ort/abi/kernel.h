// The object that ONNX Runtime creates for one node of ours.
#pragma once

#include <string>
#include <utility>

#include "ort/abi/abi.h"

namespace ortconv {

// Immutable after creation; any number of threads may be inside compute().
class Kernel {
 public:
  // `subject` names the node in messages.
  Kernel(const OrtApi* api, std::string subject) : api_(api), subject_(std::move(subject)) {}
  virtual ~Kernel() = default;
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;

  virtual void compute(OrtKernelContext* context) const = 0;

  const OrtApi* api() const { return api_; }
  const std::string& subject() const { return subject_; }

 private:
  const OrtApi* api_;
  std::string subject_;
};

}  // namespace ortconv

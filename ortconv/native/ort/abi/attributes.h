// The attributes of a node, from wherever ONNX Runtime offers them.
#pragma once

#include <cstdint>
#include <vector>

#include "ort/abi/abi.h"

namespace ortconv {

// Typed access to attributes by name. Each throws Error when the attribute is missing or of another type.
class AttributeSource {
 public:
  virtual ~AttributeSource() = default;
  virtual int64_t integer(const char* name) const = 0;
  virtual std::vector<int64_t> integers(const char* name) const = 0;
  // Empty when the attribute is missing.
  virtual std::vector<float> numbers(const char* name) const = 0;
};

// The attributes as CreateKernel sees them.
class KernelAttributes : public AttributeSource {
 public:
  KernelAttributes(const OrtApi* api, const OrtKernelInfo* info) : api_(api), info_(info) {}
  int64_t integer(const char* name) const override;
  std::vector<int64_t> integers(const char* name) const override;
  std::vector<float> numbers(const char* name) const override;

 private:
  const OrtApi* api_;
  const OrtKernelInfo* info_;
};

// The attributes as shape inference sees them.
class InferenceAttributes : public AttributeSource {
 public:
  InferenceAttributes(const OrtApi* api, const OrtShapeInferContext* context) : api_(api), context_(context) {}
  int64_t integer(const char* name) const override;
  std::vector<int64_t> integers(const char* name) const override;
  // Shapes do not depend on any.
  std::vector<float> numbers(const char*) const override { return {}; }

 private:
  // Bytes read into `data`.
  size_t read(const char* name, int type, void* data, size_t bytes) const;

  const OrtApi* api_;
  const OrtShapeInferContext* context_;
};

}  // namespace ortconv

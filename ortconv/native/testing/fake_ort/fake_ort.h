// As much of ONNX Runtime as a kernel of ours meets: tensors, a node, a run of it, allocators. A call of anything else
// ends the process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ep/abi.h"
#include "ops/conv_params.h"
#include "ort/abi/abi.h"

// What ONNX Runtime keeps behind its opaque types.
struct OrtStatus {
  int code;
  std::string message;
};
struct OrtMemoryInfo {
  std::string name;
  int id;
};
struct OrtValue {
  int type;
  ortconv::Shape dims;
  const OrtMemoryInfo* memory;
  void* data;
};
struct OrtTensorTypeAndShapeInfo {
  int type;
  ortconv::Shape dims;
};
struct OrtTypeInfo {
  OrtTensorTypeAndShapeInfo tensor;
};
struct OrtCustomOpDomain {
  std::string name;
  std::vector<const OrtCustomOp*> ops;
};
struct OrtSessionOptions {
  std::map<std::string, std::string> config;
  std::vector<const OrtCustomOpDomain*> domains;
};
// Entries of a session's options, which outlive it.
struct OrtKeyValuePairs {
  std::vector<const char*> keys, values;
};
// A node.
struct OrtKernelInfo {
  std::string name = "node";
  ortconv::ConvAttributes attributes;
  int64_t block_size = 0;       // of MatMulCompressed
  const OrtMemoryInfo* memory;  // of its tensors
  struct Input {
    std::optional<OrtTensorTypeAndShapeInfo> declared;  // no dims: of unknown rank
    const OrtValue* constant = nullptr;
  };
  std::vector<Input> inputs;  // without `declared`: absent
  const OrtEp* provider = nullptr;
};
// A run of it.
struct OrtKernelContext {
  std::vector<const OrtValue*> inputs;
  const OrtMemoryInfo* memory;  // of Y
  void* stream = nullptr;
  int y_type = 0;  // 0: as the first input
  std::unique_ptr<OrtValue> y;
  std::unique_ptr<unsigned char[]> host_y;  // its memory, where it is on the host
  size_t y_bytes = 0;
};

namespace ortconv::test {

// The table of functions, and the base by which a library finds it.
const OrtApi* fake_ort();
const OrtApiBase* fake_ort_base();

// Memory of the host, and of a fake GPU.
const OrtMemoryInfo* host_memory();
const OrtMemoryInfo* gpu_memory(int device);

// What was not given back yet: blocks, and allocators.
struct Allocations {
  int blocks = 0, allocators = 0;
  size_t bytes = 0;
};
Allocations allocations();
// Makes allocations of more bytes fail.
void limit_allocations(size_t bytes);

}  // namespace ortconv::test

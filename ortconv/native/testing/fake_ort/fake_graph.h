// As much of ONNX Runtime as an execution provider of ours meets: devices, a graph, and what is claimed of it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "ep/abi.h"
#include "testing/fake_ort/fake_ort.h"

struct OrtHardwareDevice {
  int type;
};
struct OrtEpDevice {
  const OrtEpFactory* factory;
  const OrtHardwareDevice* device;
};
struct OrtOpAttr {
  int type;
  std::string bytes;
};
struct OrtNode;
struct OrtValueInfo {
  std::string name;
  OrtTypeInfo type;
  const OrtValue* constant = nullptr;
  bool is_graph_output = false;
  const OrtNode* producer = nullptr;
  std::vector<const OrtNode*> consumers;
};
struct OrtNode {
  size_t id;
  std::string name, op_type;
  int since_version;
  std::vector<const OrtValueInfo*> inputs, outputs;
  std::map<std::string, OrtOpAttr> attributes;
  std::string provider;
};
struct OrtGraph {
  std::vector<const OrtNode*> nodes;
};
struct OrtEpGraphSupportInfo {
  const OrtKernelRegistry* registry;
  std::vector<std::vector<const OrtNode*>> fused;
  std::vector<const OrtNode*> single;
};
struct OrtKernelDef {
  std::string op_type, domain, provider;
  int first = 0, last = 0;
};
struct OrtKernelDefBuilder {
  OrtKernelDef def;
};
struct OrtKernelRegistry {
  struct Entry {
    OrtKernelDef def;
    OrtKernelCreateFunc* create;
    void* state;
  };
  std::vector<Entry> entries;
};

namespace ortconv::test {

// Puts the functions of graphs and providers into a table of OrtApi.
void add_graph_slots(void (**slots)());

// The entry of a registry for a node; null where there is none.
const OrtKernelRegistry::Entry* find_entry(const OrtKernelRegistry& registry, const OrtNode& node);

}  // namespace ortconv::test

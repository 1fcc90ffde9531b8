#include "testing/fake_ort/fake_graph.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

struct OrtDataType {
  int type;
};

namespace ortconv::test {
namespace {

void unexpected() {
  std::fprintf(stderr, "a function of ONNX Runtime's providers that the fake does not have\n");
  std::abort();
}

template <int kIndex, class Signature, class Function>
void set_slot(void (**slots)(), abi::Slot<kIndex, Signature>, Function function) {
  Signature* const pointer = function;
  slots[kIndex] = reinterpret_cast<void (*)()>(pointer);
}
template <int kIndex, class Signature, class Function>
void set_slot(void (**slots)(), abi::EpSlot<kIndex, Signature>, Function function) {
  set_slot(slots, abi::Slot<kIndex, Signature>(), function);
}

struct EpTable {
  void (*slots[44])();

  EpTable() {
    for (auto& slot : slots) slot = unexpected;
    set_slot(slots, abi::CreateEpDevice(),
             [](OrtEpFactory* factory, const OrtHardwareDevice* device, const OrtKeyValuePairs*,
                const OrtKeyValuePairs*, OrtEpDevice** out) -> OrtStatus* {
               *out = new OrtEpDevice{factory, device};
               return nullptr;
             });
    set_slot(slots, abi::AddNodesToFuse(),
             [](OrtEpGraphSupportInfo* info, const OrtNode* const* nodes, size_t count,
                const OrtNodeFusionOptions* options) -> OrtStatus* {
               if (!options->drop_constant_initializers) unexpected();
               info->fused.emplace_back(nodes, nodes + count);
               return nullptr;
             });
    set_slot(slots, abi::AddSingleNode(), [](OrtEpGraphSupportInfo* info, const OrtNode* node) -> OrtStatus* {
      info->single.push_back(node);
      return nullptr;
    });
    registry();
  }

  void registry() {
    set_slot(slots, abi::CreateKernelRegistry(), [](OrtKernelRegistry** out) -> OrtStatus* {
      *out = new OrtKernelRegistry;
      return nullptr;
    });
    set_slot(slots, abi::KernelRegistryAddKernel(),
             [](OrtKernelRegistry* registry, const OrtKernelDef* def, OrtKernelCreateFunc* create,
                void* state) -> OrtStatus* {
               registry->entries.push_back({*def, create, state});
               return nullptr;
             });
    set_slot(slots, abi::CreateKernelDefBuilder(), [](OrtKernelDefBuilder** out) -> OrtStatus* {
      *out = new OrtKernelDefBuilder;
      return nullptr;
    });
    set_slot(slots, abi::ReleaseKernelDefBuilder(), [](OrtKernelDefBuilder* builder) { delete builder; });
    set_slot(slots, abi::SetOperatorType(), [](OrtKernelDefBuilder* builder, const char* text) -> OrtStatus* {
      builder->def.op_type = text;
      return nullptr;
    });
    set_slot(slots, abi::SetDomain(), [](OrtKernelDefBuilder* builder, const char* text) -> OrtStatus* {
      builder->def.domain = text;
      return nullptr;
    });
    set_slot(slots, abi::SetSinceVersion(), [](OrtKernelDefBuilder* builder, int first, int last) -> OrtStatus* {
      builder->def.first = first, builder->def.last = last;
      return nullptr;
    });
    set_slot(slots, abi::SetExecutionProvider(), [](OrtKernelDefBuilder* builder, const char* text) -> OrtStatus* {
      builder->def.provider = text;
      return nullptr;
    });
    set_slot(
        slots, abi::AddTypeConstraint(),
        [](OrtKernelDefBuilder*, const char*, const OrtDataType* const*, size_t) -> OrtStatus* { return nullptr; });
    set_slot(slots, abi::BuildKernelDef(), [](OrtKernelDefBuilder* builder, OrtKernelDef** out) -> OrtStatus* {
      *out = new OrtKernelDef(builder->def);
      return nullptr;
    });
    set_slot(slots, abi::ReleaseKernelDef(), [](OrtKernelDef* def) { delete def; });
    set_slot(slots, abi::GetTensorDataType(), [](int type, const OrtDataType** out) -> OrtStatus* {
      static auto& all = *new std::map<int, OrtDataType>;
      *out = &all.try_emplace(type, OrtDataType{type}).first->second;
      return nullptr;
    });
    set_slot(slots, abi::LookUpKernel(),
             [](OrtEpGraphSupportInfo* info, const OrtNode* node, const OrtKernelDef** out) -> OrtStatus* {
               const OrtKernelRegistry::Entry* const entry = find_entry(*info->registry, *node);
               *out = entry == nullptr ? nullptr : &entry->def;
               return nullptr;
             });
    set_slot(slots, abi::KernelInfoGetEp(), [](const OrtKernelInfo* info, const OrtEp** out) -> OrtStatus* {
      *out = info->provider;
      return nullptr;
    });
  }
};

void add_values(void (**slots)()) {
  set_slot(slots, abi::GetValueInfoName(), [](const OrtValueInfo* value, const char** name) -> OrtStatus* {
    *name = value->name.c_str();
    return nullptr;
  });
  set_slot(slots, abi::GetValueInfoTypeInfo(), [](const OrtValueInfo* value, const OrtTypeInfo** type) -> OrtStatus* {
    *type = &value->type;
    return nullptr;
  });
  set_slot(slots, abi::ValueInfoGetProducer(),
           [](const OrtValueInfo* value, const OrtNode** node, size_t*) -> OrtStatus* {
             *node = value->producer;
             return nullptr;
           });
  set_slot(slots, abi::ValueInfoGetNumConsumers(), [](const OrtValueInfo* value, size_t* count) -> OrtStatus* {
    *count = value->consumers.size();
    return nullptr;
  });
  set_slot(slots, abi::ValueInfoGetConsumers(),
           [](const OrtValueInfo* value, const OrtNode** nodes, int64_t*, size_t count) -> OrtStatus* {
             std::copy_n(value->consumers.begin(), count, nodes);
             return nullptr;
           });
  set_slot(slots, abi::ValueInfoGetInitializerValue(),
           [](const OrtValueInfo* value, const OrtValue** tensor) -> OrtStatus* {
             *tensor = value->constant;
             return nullptr;
           });
  set_slot(slots, abi::ValueInfoIsRequiredGraphInput(), [](const OrtValueInfo* value, bool* is) -> OrtStatus* {
    *is = value->producer == nullptr && value->constant == nullptr;
    return nullptr;
  });
  set_slot(slots, abi::ValueInfoIsGraphOutput(), [](const OrtValueInfo* value, bool* is) -> OrtStatus* {
    *is = value->is_graph_output;
    return nullptr;
  });
  set_slot(slots, abi::ValueInfoIsConstantInitializer(), [](const OrtValueInfo* value, bool* is) -> OrtStatus* {
    *is = value->constant != nullptr;
    return nullptr;
  });
}

void add_nodes(void (**slots)()) {
  set_slot(slots, abi::GraphGetNumNodes(), [](const OrtGraph* graph, size_t* count) -> OrtStatus* {
    *count = graph->nodes.size();
    return nullptr;
  });
  set_slot(slots, abi::GraphGetNodes(), [](const OrtGraph* graph, const OrtNode** nodes, size_t count) -> OrtStatus* {
    std::copy_n(graph->nodes.begin(), count, nodes);
    return nullptr;
  });
  set_slot(slots, abi::NodeGetId(), [](const OrtNode* node, size_t* id) -> OrtStatus* {
    *id = node->id;
    return nullptr;
  });
  set_slot(slots, abi::NodeGetName(), [](const OrtNode* node, const char** text) -> OrtStatus* {
    *text = node->name.c_str();
    return nullptr;
  });
  set_slot(slots, abi::NodeGetOperatorType(), [](const OrtNode* node, const char** text) -> OrtStatus* {
    *text = node->op_type.c_str();
    return nullptr;
  });
  set_slot(slots, abi::NodeGetDomain(), [](const OrtNode*, const char** text) -> OrtStatus* {
    *text = "";
    return nullptr;
  });
  set_slot(slots, abi::NodeGetSinceVersion(), [](const OrtNode* node, int* version) -> OrtStatus* {
    *version = node->since_version;
    return nullptr;
  });
  set_slot(slots, abi::NodeGetNumInputs(), [](const OrtNode* node, size_t* count) -> OrtStatus* {
    *count = node->inputs.size();
    return nullptr;
  });
  set_slot(slots, abi::NodeGetInputs(),
           [](const OrtNode* node, const OrtValueInfo** values, size_t count) -> OrtStatus* {
             std::copy_n(node->inputs.begin(), count, values);
             return nullptr;
           });
  set_slot(slots, abi::NodeGetNumOutputs(), [](const OrtNode* node, size_t* count) -> OrtStatus* {
    *count = node->outputs.size();
    return nullptr;
  });
  set_slot(slots, abi::NodeGetOutputs(),
           [](const OrtNode* node, const OrtValueInfo** values, size_t count) -> OrtStatus* {
             std::copy_n(node->outputs.begin(), count, values);
             return nullptr;
           });
  set_slot(slots, abi::NodeGetAttributeByName(),
           [](const OrtNode* node, const char* name, const OrtOpAttr** attribute) -> OrtStatus* {
             const auto found = node->attributes.find(name);
             *attribute = found == node->attributes.end() ? nullptr : &found->second;
             return nullptr;
           });
  set_slot(slots, abi::NodeGetEpName(), [](const OrtNode* node, const char** text) -> OrtStatus* {
    *text = node->provider.c_str();
    return nullptr;
  });
  // Without enough room it fails, and says how much is wanted.
  set_slot(slots, abi::ReadOpAttr(),
           [](const OrtOpAttr* attribute, int type, void* data, size_t bytes, size_t* written) -> OrtStatus* {
             *written = attribute->type == type ? attribute->bytes.size() : 0;
             if (bytes < *written) return new OrtStatus{1, "the buffer is too small"};
             std::memcpy(data, attribute->bytes.data(), *written);
             return nullptr;
           });
}

}  // namespace

const OrtKernelRegistry::Entry* find_entry(const OrtKernelRegistry& registry, const OrtNode& node) {
  for (const OrtKernelRegistry::Entry& entry : registry.entries) {
    const bool fits = entry.def.first <= node.since_version && node.since_version <= entry.def.last;
    if (fits && entry.def.op_type == node.op_type && entry.def.domain.empty()) return &entry;
  }
  return nullptr;
}

void add_graph_slots(void (**slots)()) {
  set_slot(slots, abi::GetEpApi(), []() -> const OrtEpApi* {
    static const EpTable& table = *new EpTable;
    return reinterpret_cast<const OrtEpApi*>(table.slots);
  });
  set_slot(slots, abi::HardwareDeviceType(), [](const OrtHardwareDevice* device) { return device->type; });
  add_values(slots);
  add_nodes(slots);
}

}  // namespace ortconv::test

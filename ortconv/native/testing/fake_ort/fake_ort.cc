#include "testing/fake_ort/fake_ort.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>

#include "testing/fake_cuda/fake_cuda.h"
#include "testing/fake_ort/fake_graph.h"

struct OrtAllocator {
  const OrtMemoryInfo* memory;
};

namespace ortconv::test {
namespace {

struct State {
  std::mutex mutex;
  std::map<void*, size_t> blocks;  // and their bytes
  Allocations now;
  size_t limit = SIZE_MAX;
};

State& state() {
  static State& only = *new State;
  return only;
}

OrtStatus* status(int code, const std::string& message) { return new OrtStatus{code, message}; }

void unexpected() {
  std::fprintf(stderr, "a function of ONNX Runtime that the fake does not have\n");
  std::abort();
}

// The attributes by name, as converters write them.
std::optional<std::vector<int64_t>> ints_of(const ConvAttributes& a, const std::string& name) {
  if (name == "strides") return a.strides;
  if (name == "dilations") return a.dilations;
  if (name == "x_perm") return a.x_perm;
  if (name == "w_perm") return a.w_perm;
  if (name == "y_perm") return a.y_perm;
  if (name == a.pads_name()) return a.pads;
  if (name == "output_padding" && a.transposed()) return a.output_padding;
  return std::nullopt;
}

OrtStatus* attribute_missing(const std::string& name) { return status(1, "No attribute with name: " + name); }

struct Table {
  void (*slots[415])();

  template <class Slot, class Function>
  void set(Function function) {
    set_slot(Slot(), function);
  }

  Table() {
    for (auto& slot : slots) slot = unexpected;
    set<abi::CreateStatus>([](int code, const char* message) { return status(code, message); });
    set<abi::GetErrorMessage>([](const OrtStatus* s) { return s->message.c_str(); });
    set<abi::ReleaseStatus>([](OrtStatus* s) { delete s; });
    registration();
    tensors();
    node();
    run();
    memory();
    add_graph_slots(slots);
  }

  void registration() {
    set<abi::CreateCustomOpDomain>([](const char* name, OrtCustomOpDomain** out) -> OrtStatus* {
      *out = new OrtCustomOpDomain{name, {}};
      return nullptr;
    });
    set<abi::CustomOpDomainAdd>([](OrtCustomOpDomain* domain, const OrtCustomOp* op) -> OrtStatus* {
      domain->ops.push_back(op);
      return nullptr;
    });
    set<abi::AddCustomOpDomain>([](OrtSessionOptions* options, OrtCustomOpDomain* domain) -> OrtStatus* {
      options->domains.push_back(domain);
      return nullptr;
    });
    set<abi::AddSessionConfigEntry>([](OrtSessionOptions* options, const char* key, const char* value) -> OrtStatus* {
      options->config[key] = value;
      return nullptr;
    });
    set<abi::HasSessionConfigEntry>([](const OrtSessionOptions* options, const char* key, int* has) -> OrtStatus* {
      *has = static_cast<int>(options->config.count(key));
      return nullptr;
    });
    set<abi::GetSessionConfigEntry>(
        [](const OrtSessionOptions* options, const char* key, char* value, size_t* size) -> OrtStatus* {
          const std::string& entry = options->config.at(key);
          if (value != nullptr) std::memcpy(value, entry.c_str(), entry.size() + 1);
          *size = entry.size() + 1;
          return nullptr;
        });
    set<abi::GetSessionOptionsConfigEntries>(
        [](const OrtSessionOptions* options, OrtKeyValuePairs** out) -> OrtStatus* {
          auto pairs = std::make_unique<OrtKeyValuePairs>();
          for (const auto& [key, value] : options->config) {
            pairs->keys.push_back(key.c_str());
            pairs->values.push_back(value.c_str());
          }
          *out = pairs->keys.empty() ? nullptr : pairs.release();
          return nullptr;
        });
    set<abi::GetKeyValuePairs>(
        [](const OrtKeyValuePairs* pairs, const char* const** keys, const char* const** values, size_t* count) {
          *keys = pairs->keys.data();
          *values = pairs->values.data();
          *count = pairs->keys.size();
        });
    set<abi::ReleaseKeyValuePairs>([](OrtKeyValuePairs* pairs) { delete pairs; });
  }

  void tensors() {
    set<abi::GetTensorMutableData>([](OrtValue* value, void** data) -> OrtStatus* {
      *data = value->data;
      return nullptr;
    });
    set<abi::GetTensorElementTypeAndShapeDataReference>(
        [](const OrtValue* value, int* type, const int64_t** dims, size_t* rank) -> OrtStatus* {
          *type = value->type;
          *dims = value->dims.empty() ? nullptr : value->dims.data();
          *rank = value->dims.size();
          return nullptr;
        });
    set<abi::ReleaseTensorTypeAndShapeInfo>([](OrtTensorTypeAndShapeInfo* info) { delete info; });
    set<abi::CastTypeInfoToTensorInfo>(
        [](const OrtTypeInfo* info, const OrtTensorTypeAndShapeInfo** out) -> OrtStatus* {
          *out = &info->tensor;
          return nullptr;
        });
    set<abi::ReleaseTypeInfo>([](OrtTypeInfo* info) { delete info; });
    set<abi::GetTensorElementType>([](const OrtTensorTypeAndShapeInfo* info, int* type) -> OrtStatus* {
      *type = info->type;
      return nullptr;
    });
    set<abi::GetSymbolicDimensions>(
        [](const OrtTensorTypeAndShapeInfo*, const char** names, size_t count) -> OrtStatus* {
          std::fill_n(names, count, "");
          return nullptr;
        });
    set<abi::GetDimensionsCount>([](const OrtTensorTypeAndShapeInfo* info, size_t* rank) -> OrtStatus* {
      *rank = info->dims.size();
      return nullptr;
    });
    set<abi::GetDimensions>([](const OrtTensorTypeAndShapeInfo* info, int64_t* dims, size_t count) -> OrtStatus* {
      std::copy_n(info->dims.begin(), count, dims);
      return nullptr;
    });
    set<abi::GetTensorMemoryInfo>([](const OrtValue* value, const OrtMemoryInfo** out) -> OrtStatus* {
      *out = value->memory;
      return nullptr;
    });
  }

  void node() {
    set<abi::KernelInfoGetNodeName>([](const OrtKernelInfo* info, char* name, size_t* size) -> OrtStatus* {
      if (name != nullptr) std::memcpy(name, info->name.c_str(), info->name.size() + 1);
      *size = info->name.size() + 1;
      return nullptr;
    });
    set<abi::KernelInfoGetAttributeInt>([](const OrtKernelInfo* info, const char* name, int64_t* value) -> OrtStatus* {
      const std::map<std::string, int64_t> all = {{"group", info->attributes.group},
                                                  {"auto_pad", static_cast<int64_t>(info->attributes.auto_pad)},
                                                  {"accumulation_type", info->attributes.accumulation_type},
                                                  {"block_size", info->block_size}};
      const auto found = all.find(name);
      if (found == all.end()) return attribute_missing(name);
      *value = found->second;
      return nullptr;
    });
    set<abi::KernelInfoGetAttributeInts>(
        [](const OrtKernelInfo* info, const char* name, int64_t* values, size_t* count) -> OrtStatus* {
          const auto found = ints_of(info->attributes, name);
          if (!found) return attribute_missing(name);
          if (values != nullptr) std::copy(found->begin(), found->end(), values);
          *count = found->size();
          return nullptr;
        });
    set<abi::KernelInfoGetAttributeFloats>(
        [](const OrtKernelInfo* info, const char* name, float* values, size_t* count) -> OrtStatus* {
          const Activation& a = info->attributes.activation;
          const bool is_hard_sigmoid = std::strcmp(name, "hard_sigmoid") == 0;
          if (!is_hard_sigmoid && std::strcmp(name, "activation") != 0) return attribute_missing(name);
          std::vector<float> all = {a.slope, a.minimum, a.maximum};
          if (is_hard_sigmoid) all = {a.hard_sigmoid.alpha, a.hard_sigmoid.beta};
          if (values != nullptr) std::copy(all.begin(), all.end(), values);
          *count = all.size();
          return nullptr;
        });
    set<abi::KernelInfoGetAttributeString>(
        [](const OrtKernelInfo*, const char* name, char*, size_t*) -> OrtStatus* { return attribute_missing(name); });
    set<abi::KernelInfoGetInputCount>([](const OrtKernelInfo* info, size_t* count) -> OrtStatus* {
      *count = info->inputs.size();
      return nullptr;
    });
    set<abi::KernelInfoGetInputTypeInfo>([](const OrtKernelInfo* info, size_t index, OrtTypeInfo** out) -> OrtStatus* {
      if (index >= info->inputs.size() || !info->inputs[index].declared) return status(2, "no such input");
      *out = new OrtTypeInfo{*info->inputs[index].declared};
      return nullptr;
    });
    set<abi::KernelInfoGetConstantInput>(
        [](const OrtKernelInfo* info, size_t index, int* is_constant, const OrtValue** out) -> OrtStatus* {
          *out = index < info->inputs.size() ? info->inputs[index].constant : nullptr;
          *is_constant = *out != nullptr;
          return nullptr;
        });
    set<abi::KernelInfoGetAllocator>([](const OrtKernelInfo* info, int mem_type, OrtAllocator** out) -> OrtStatus* {
      if (mem_type != abi::kMemTypeDefault) unexpected();
      const std::lock_guard<std::mutex> lock(state().mutex);
      ++state().now.allocators;
      *out = new OrtAllocator{info->memory};
      return nullptr;
    });
  }

  void run() {
    set<abi::KernelContextGetInputCount>([](const OrtKernelContext* context, size_t* count) -> OrtStatus* {
      *count = context->inputs.size();
      return nullptr;
    });
    set<abi::KernelContextGetInput>(
        [](const OrtKernelContext* context, size_t index, const OrtValue** out) -> OrtStatus* {
          *out = context->inputs.at(index);
          return nullptr;
        });
    set<abi::KernelContextGetOutput>(
        [](OrtKernelContext* context, size_t index, const int64_t* dims, size_t rank, OrtValue** out) -> OrtStatus* {
          if (index != 0 || context->y != nullptr) unexpected();
          const int type = context->y_type != 0 ? context->y_type : context->inputs.at(0)->type;
          size_t bytes = size_of(static_cast<DataType>(type));
          for (size_t i = 0; i < rank; ++i) bytes *= static_cast<size_t>(dims[i]);
          context->y_bytes = bytes;
          if (context->memory == host_memory()) context->host_y.reset(new unsigned char[bytes]);
          void* const data = context->host_y != nullptr ? context->host_y.get() : fake_allocate(bytes);
          context->y.reset(new OrtValue{type, Shape(dims, dims + rank), context->memory, data});
          *out = context->y.get();
          return nullptr;
        });
    set<abi::KernelContextParallelFor>(
        [](const OrtKernelContext*, void (*fn)(void*, size_t), size_t total, size_t, void* user_data) -> OrtStatus* {
          for (size_t i = 0; i < total; ++i) fn(user_data, i);
          return nullptr;
        });
    set<abi::KernelContextGetAllocator>(
        [](const OrtKernelContext*, const OrtMemoryInfo* memory, OrtAllocator** out) -> OrtStatus* {
          const std::lock_guard<std::mutex> lock(state().mutex);
          ++state().now.allocators;
          *out = new OrtAllocator{memory};
          return nullptr;
        });
    set<abi::KernelContextGetGpuComputeStream>([](const OrtKernelContext* context, void** stream) -> OrtStatus* {
      *stream = context->stream;
      return nullptr;
    });
  }

  void memory() {
    set<abi::AllocatorAlloc>([](OrtAllocator* allocator, size_t bytes, void** out) -> OrtStatus* {
      State& s = state();
      const std::lock_guard<std::mutex> lock(s.mutex);
      if (bytes > s.limit) return status(1, "Failed to allocate memory for requested buffer");
      *out = allocator->memory == host_memory() ? std::malloc(bytes) : fake_allocate(bytes);
      s.blocks[*out] = bytes;
      s.now.blocks += 1;
      s.now.bytes += bytes;
      return nullptr;
    });
    set<abi::AllocatorFree>([](OrtAllocator* allocator, void* memory) -> OrtStatus* {
      State& s = state();
      const std::lock_guard<std::mutex> lock(s.mutex);
      s.now.blocks -= 1;
      s.now.bytes -= s.blocks.at(memory);
      s.blocks.erase(memory);
      allocator->memory == host_memory() ? std::free(memory) : fake_free(memory);
      return nullptr;
    });
    set<abi::ReleaseAllocator>([](OrtAllocator* allocator) {
      const std::lock_guard<std::mutex> lock(state().mutex);
      --state().now.allocators;
      delete allocator;
    });
    set<abi::AllocatorGetInfo>([](const OrtAllocator* allocator, const OrtMemoryInfo** out) -> OrtStatus* {
      *out = allocator->memory;
      return nullptr;
    });
    set<abi::MemoryInfoGetName>([](const OrtMemoryInfo* memory, const char** name) -> OrtStatus* {
      *name = memory->name.c_str();
      return nullptr;
    });
    set<abi::MemoryInfoGetId>([](const OrtMemoryInfo* memory, int* id) -> OrtStatus* {
      *id = memory->id;
      return nullptr;
    });
  }

 private:
  template <int kIndex, class Signature, class Function>
  void set_slot(abi::Slot<kIndex, Signature>, Function function) {
    Signature* const pointer = function;
    slots[kIndex] = reinterpret_cast<void (*)()>(pointer);
  }
};

}  // namespace

const OrtApi* fake_ort() {
  static const Table& table = *new Table;
  return reinterpret_cast<const OrtApi*>(table.slots);
}

const OrtApiBase* fake_ort_base() {
  static const OrtApiBase base = {[](uint32_t) { return fake_ort(); }, [] { return "1.31.1"; }};
  return &base;
}

const OrtMemoryInfo* host_memory() {
  static const OrtMemoryInfo memory = {"Cpu", 0};
  return &memory;
}

const OrtMemoryInfo* gpu_memory(int device) {
  static auto& all = *new std::map<int, OrtMemoryInfo>;
  static std::mutex& mutex = *new std::mutex;
  const std::lock_guard<std::mutex> lock(mutex);
  return &all.try_emplace(device, OrtMemoryInfo{"Cuda", device}).first->second;
}

Allocations allocations() {
  const std::lock_guard<std::mutex> lock(state().mutex);
  return state().now;
}

void limit_allocations(size_t bytes) {
  const std::lock_guard<std::mutex> lock(state().mutex);
  state().limit = bytes;
}

}  // namespace ortconv::test

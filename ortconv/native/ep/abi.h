// The slice of ONNX Runtime's C ABI for execution providers in libraries of their own, beside ort/abi. The structs are
// filled here and read by ONNX Runtime, which takes from them what the version in their first member has.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ort/abi/abi.h"

extern "C" {

// Opaque types of ONNX Runtime.
struct OrtDataType;
struct OrtDataTransferImpl;
struct OrtEpApi;  // in memory a table of function pointers, as OrtApi
struct OrtEpDevice;
struct OrtEpGraphSupportInfo;
struct OrtGraph;
struct OrtHardwareDevice;
struct OrtKernelDef;
struct OrtKernelDefBuilder;
struct OrtKernelRegistry;
struct OrtLogger;
struct OrtNode;
struct OrtNodeComputeContext;
struct OrtSharedPrePackedWeightCache;
struct OrtValueInfo;

struct OrtNodeFusionOptions {
  uint32_t version;
  bool drop_constant_initializers;
};

// Runs the nodes that were fused into one. ONNX Runtime hands the same pointers back to its functions.
struct OrtNodeComputeInfo {
  uint32_t version;
  OrtStatus* (*CreateState)(OrtNodeComputeInfo*, OrtNodeComputeContext*, void** state);
  OrtStatus* (*Compute)(OrtNodeComputeInfo*, void* state, OrtKernelContext*);
  void (*ReleaseState)(OrtNodeComputeInfo*, void* state);
};

struct OrtKernelImpl {
  uint32_t version;
  uint32_t flags;  // 0
  OrtStatus* (*Compute)(OrtKernelImpl*, OrtKernelContext*);
  void (*Release)(OrtKernelImpl*);
  OrtStatus* (*PrePackWeight)(OrtKernelImpl*, const OrtValue*, int index, OrtAllocator*, OrtSharedPrePackedWeightCache*,
                              bool* is_packed);
  OrtStatus* (*SetSharedPrePackedWeight)(OrtKernelImpl*, const void* const* buffers, const size_t* sizes, size_t count,
                                         int index);
};
using OrtKernelCreateFunc = OrtStatus*(void* state, const OrtKernelInfo*, OrtKernelImpl**);

// The provider of one session.
struct OrtEp {
  uint32_t version;
  const char* (*GetName)(const OrtEp*);
  OrtStatus* (*GetCapability)(OrtEp*, const OrtGraph*, OrtEpGraphSupportInfo*);
  OrtStatus* (*Compile)(OrtEp*, const OrtGraph** graphs, const OrtNode** fused, size_t count, OrtNodeComputeInfo**,
                        OrtNode** context_nodes);
  void (*ReleaseNodeComputeInfos)(OrtEp*, OrtNodeComputeInfo**, size_t count);
  void* unused_1[8];  // layouts, dynamic options, starts and ends of runs, allocators, streams, compiled models
  OrtStatus* (*GetKernelRegistry)(OrtEp*, const OrtKernelRegistry**);
  OrtStatus* (*IsConcurrentRunSupported)(OrtEp*, bool* is_supported);
  void* unused_2[11];  // of later versions
};

// Makes providers for sessions.
struct OrtEpFactory {
  uint32_t version;
  const char* (*GetName)(const OrtEpFactory*);
  const char* (*GetVendor)(const OrtEpFactory*);
  OrtStatus* (*GetSupportedDevices)(OrtEpFactory*, const OrtHardwareDevice* const* devices, size_t count,
                                    OrtEpDevice** supported, size_t most, size_t* supported_count);
  OrtStatus* (*CreateEp)(OrtEpFactory*, const OrtHardwareDevice* const* devices,
                         const OrtKeyValuePairs* const* metadata, size_t count, const OrtSessionOptions*,
                         const OrtLogger*, OrtEp**);
  void (*ReleaseEp)(OrtEpFactory*, OrtEp*);
  uint32_t (*GetVendorId)(const OrtEpFactory*);
  const char* (*GetVersion)(const OrtEpFactory*);
  void* unused_1;  // compiled models
  OrtStatus* (*CreateAllocator)(OrtEpFactory*, const OrtMemoryInfo*, const OrtKeyValuePairs*, OrtAllocator**);
  void (*ReleaseAllocator)(OrtEpFactory*, OrtAllocator*);
  OrtStatus* (*CreateDataTransfer)(OrtEpFactory*, OrtDataTransferImpl**);
  bool (*IsStreamAware)(const OrtEpFactory*);
  void* unused_2[8];  // streams, incompatible devices, external resources, custom operators, graphics, candidates
};

}  // extern "C"

// Sizes are those of version 29; members that later versions added at the end are not looked at.
static_assert(sizeof(OrtNodeFusionOptions) == 8);
static_assert(sizeof(OrtNodeComputeInfo) == 32);
static_assert(sizeof(OrtKernelImpl) == 40 && offsetof(OrtKernelImpl, flags) == 4);
static_assert(offsetof(OrtEp, GetKernelRegistry) == 8 * 13 && sizeof(OrtEp) == 8 * 26);
static_assert(offsetof(OrtEpFactory, CreateAllocator) == 8 * 9 && offsetof(OrtEpFactory, IsStreamAware) == 8 * 12);
static_assert(sizeof(OrtEpFactory) == 8 * 21);

namespace ortconv::abi {

constexpr uint32_t kEpVersion = 24;  // the oldest with kernel registries; reported to newer versions, too
constexpr int kCpuDevice = 0;        // OrtHardwareDeviceType

using GetValueInfoName = Slot<289, OrtStatus*(const OrtValueInfo*, const char**)>;
// The result belongs to the argument.
using GetValueInfoTypeInfo = Slot<290, OrtStatus*(const OrtValueInfo*, const OrtTypeInfo**)>;
using HardwareDeviceType = Slot<307, int(const OrtHardwareDevice*)>;
using GetEpApi = Slot<317, const OrtEpApi*()>;
using ValueInfoGetProducer = Slot<323, OrtStatus*(const OrtValueInfo*, const OrtNode**, size_t* output)>;
using ValueInfoGetNumConsumers = Slot<324, OrtStatus*(const OrtValueInfo*, size_t*)>;
// An index is negative where a subgraph of the node reads the value.
using ValueInfoGetConsumers =
    Slot<325, OrtStatus*(const OrtValueInfo*, const OrtNode** nodes, int64_t* inputs, size_t count)>;
using ValueInfoGetInitializerValue = Slot<326, OrtStatus*(const OrtValueInfo*, const OrtValue**)>;
using ValueInfoIsRequiredGraphInput = Slot<328, OrtStatus*(const OrtValueInfo*, bool*)>;
using ValueInfoIsGraphOutput = Slot<330, OrtStatus*(const OrtValueInfo*, bool*)>;
using ValueInfoIsConstantInitializer = Slot<331, OrtStatus*(const OrtValueInfo*, bool*)>;
using GraphGetNumNodes = Slot<344, OrtStatus*(const OrtGraph*, size_t*)>;
using GraphGetNodes = Slot<345, OrtStatus*(const OrtGraph*, const OrtNode**, size_t count)>;
using NodeGetId = Slot<348, OrtStatus*(const OrtNode*, size_t*)>;
using NodeGetName = Slot<349, OrtStatus*(const OrtNode*, const char**)>;
using NodeGetOperatorType = Slot<350, OrtStatus*(const OrtNode*, const char**)>;
using NodeGetDomain = Slot<351, OrtStatus*(const OrtNode*, const char**)>;
using NodeGetSinceVersion = Slot<352, OrtStatus*(const OrtNode*, int*)>;
using NodeGetNumInputs = Slot<353, OrtStatus*(const OrtNode*, size_t*)>;
// Null where an optional input is absent.
using NodeGetInputs = Slot<354, OrtStatus*(const OrtNode*, const OrtValueInfo**, size_t count)>;
using NodeGetNumOutputs = Slot<355, OrtStatus*(const OrtNode*, size_t*)>;
using NodeGetOutputs = Slot<356, OrtStatus*(const OrtNode*, const OrtValueInfo**, size_t count)>;
// Null where it is absent.
using NodeGetAttributeByName = Slot<361, OrtStatus*(const OrtNode*, const char* name, const OrtOpAttr**)>;
// Empty where no provider has the node yet.
using NodeGetEpName = Slot<368, OrtStatus*(const OrtNode*, const char**)>;
using KernelInfoGetAttributeFloat = Slot<85, OrtStatus*(const OrtKernelInfo*, const char* name, float*)>;
constexpr int kAttrFloat = 3, kAttrString = 5;  // OrtOpAttrType

// A function pointer of OrtEpApi.
template <int kIndex, class Signature>
struct EpSlot {
  template <class... Args>
  static auto call(const OrtApi* api, Args... args) {
    return Slot<kIndex, Signature>::call(reinterpret_cast<const OrtApi*>(GetEpApi::call(api)), args...);
  }
};

using CreateEpDevice = EpSlot<0, OrtStatus*(OrtEpFactory*, const OrtHardwareDevice*, const OrtKeyValuePairs* metadata,
                                            const OrtKeyValuePairs* options, OrtEpDevice**)>;
using AddNodesToFuse =
    EpSlot<2, OrtStatus*(OrtEpGraphSupportInfo*, const OrtNode* const*, size_t count, const OrtNodeFusionOptions*)>;
using AddSingleNode = EpSlot<3, OrtStatus*(OrtEpGraphSupportInfo*, const OrtNode*)>;
using CreateKernelRegistry = EpSlot<18, OrtStatus*(OrtKernelRegistry**)>;
using KernelRegistryAddKernel =
    EpSlot<20, OrtStatus*(OrtKernelRegistry*, const OrtKernelDef*, OrtKernelCreateFunc*, void* state)>;
using CreateKernelDefBuilder = EpSlot<21, OrtStatus*(OrtKernelDefBuilder**)>;
using ReleaseKernelDefBuilder = EpSlot<22, void(OrtKernelDefBuilder*)>;
using SetOperatorType = EpSlot<23, OrtStatus*(OrtKernelDefBuilder*, const char*)>;
using SetDomain = EpSlot<24, OrtStatus*(OrtKernelDefBuilder*, const char*)>;
using SetSinceVersion = EpSlot<25, OrtStatus*(OrtKernelDefBuilder*, int first, int last)>;
using SetExecutionProvider = EpSlot<26, OrtStatus*(OrtKernelDefBuilder*, const char*)>;
using AddTypeConstraint =
    EpSlot<29, OrtStatus*(OrtKernelDefBuilder*, const char* name, const OrtDataType* const*, size_t count)>;
using BuildKernelDef = EpSlot<32, OrtStatus*(OrtKernelDefBuilder*, OrtKernelDef**)>;
using ReleaseKernelDef = EpSlot<33, void(OrtKernelDef*)>;
using GetTensorDataType = EpSlot<40, OrtStatus*(int type, const OrtDataType**)>;
// Null where the registry of the provider has none for the node.
using LookUpKernel = EpSlot<41, OrtStatus*(OrtEpGraphSupportInfo*, const OrtNode*, const OrtKernelDef**)>;
using KernelInfoGetEp = EpSlot<43, OrtStatus*(const OrtKernelInfo*, const OrtEp**)>;

}  // namespace ortconv::abi

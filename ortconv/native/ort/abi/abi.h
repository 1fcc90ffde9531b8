// The slice of ONNX Runtime's C ABI that this library uses, declared here so that building needs no ONNX Runtime
// headers. OrtApi is an append-only table of function pointers: a slot keeps its index in every later release.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(_WIN32)
#define ORTCONV_EXPORT __declspec(dllexport)
#else
#define ORTCONV_EXPORT __attribute__((visibility("default")))
#endif

static_assert(sizeof(void*) == 8, "ONNX Runtime's calling convention is the default one on 64-bit platforms only");

extern "C" {

// Opaque types of ONNX Runtime.
struct OrtAllocator;
struct OrtApi;  // in memory a table of function pointers, see Slot
struct OrtCustomOpDomain;
struct OrtKernelContext;
struct OrtKernelInfo;
struct OrtKeyValuePairs;
struct OrtMemoryInfo;
struct OrtOpAttr;
struct OrtSessionOptions;
struct OrtShapeInferContext;
struct OrtStatus;
struct OrtTensorTypeAndShapeInfo;
struct OrtTypeInfo;
struct OrtValue;

struct OrtApiBase {
  const OrtApi* (*GetApi)(uint32_t version);
  const char* (*GetVersionString)();
};

// One op for one set of types. Zero it, set `version`, then fill; ONNX Runtime reads the fields its version has.
struct OrtCustomOp {
  uint32_t version;
  void* (*CreateKernel)(const OrtCustomOp*, const OrtApi*, const OrtKernelInfo*);
  const char* (*GetName)(const OrtCustomOp*);
  const char* (*GetExecutionProviderType)(const OrtCustomOp*);
  int (*GetInputType)(const OrtCustomOp*, size_t index);
  size_t (*GetInputTypeCount)(const OrtCustomOp*);
  int (*GetOutputType)(const OrtCustomOp*, size_t index);
  size_t (*GetOutputTypeCount)(const OrtCustomOp*);
  void (*KernelCompute)(void* kernel, OrtKernelContext*);
  void (*KernelDestroy)(void* kernel);
  int (*GetInputCharacteristic)(const OrtCustomOp*, size_t index);
  int (*GetOutputCharacteristic)(const OrtCustomOp*, size_t index);
  int (*GetInputMemoryType)(const OrtCustomOp*, size_t index);
  int (*GetVariadicInputMinArity)(const OrtCustomOp*);
  int (*GetVariadicInputHomogeneity)(const OrtCustomOp*);
  int (*GetVariadicOutputMinArity)(const OrtCustomOp*);
  int (*GetVariadicOutputHomogeneity)(const OrtCustomOp*);
  OrtStatus* (*CreateKernelV2)(const OrtCustomOp*, const OrtApi*, const OrtKernelInfo*, void** kernel);  // since 16
  OrtStatus* (*KernelComputeV2)(void* kernel, OrtKernelContext*);                                        // since 16
  OrtStatus* (*InferOutputShapeFn)(const OrtCustomOp*, OrtShapeInferContext*);                           // since 17
  int (*GetStartVersion)(const OrtCustomOp*);                                                            // since 17
  int (*GetEndVersion)(const OrtCustomOp*);                                                              // since 17
  size_t (*GetMayInplace)(int** input_index, int** output_index);                                        // since 18
  void (*ReleaseMayInplace)(int* input_index, int* output_index);                                        // since 18
  size_t (*GetAliasMap)(int** input_index, int** output_index);                                          // since 18
  void (*ReleaseAliasMap)(int* input_index, int* output_index);                                          // since 18
};

}  // extern "C"

static_assert(sizeof(OrtCustomOp) == 208, "layout of OrtCustomOp, version 18");
static_assert(offsetof(OrtCustomOp, CreateKernelV2) == 136, "layout of OrtCustomOp, version 18");
static_assert(offsetof(OrtCustomOp, GetEndVersion) == 168, "layout of OrtCustomOp, version 18");

namespace ortconv::abi {

constexpr uint32_t kApiVersion = 24;                       // OrtApi version asked for: the newest slot used is of 1.24
constexpr uint32_t kCustomOpVersion = 17;                  // OrtCustomOp fields up to GetEndVersion
constexpr int kErrorFail = 1;                              // OrtErrorCode ORT_FAIL
constexpr int kErrorInvalidArgument = 2;                   // OrtErrorCode ORT_INVALID_ARGUMENT
constexpr int kRequired = 0, kOptional = 1;                // OrtCustomOpInputOutputCharacteristic
constexpr int kMemTypeDefault = 0, kMemTypeCpuInput = -2;  // OrtMemType
constexpr int kAttrInt = 1, kAttrInts = 2;                 // OrtOpAttrType

// A function pointer of OrtApi: its index in the table and its signature.
template <int kIndex, class Signature>
struct Slot {
  template <class... Args>
  static auto call(const OrtApi* api, Args... args) {
    const auto* table = reinterpret_cast<void (*const*)()>(api);
    return reinterpret_cast<Signature*>(table[kIndex])(args...);
  }
};

using CreateStatus = Slot<0, OrtStatus*(int code, const char* message)>;
using GetErrorMessage = Slot<2, const char*(const OrtStatus*)>;
using CreateCustomOpDomain = Slot<26, OrtStatus*(const char* name, OrtCustomOpDomain**)>;
using CustomOpDomainAdd = Slot<27, OrtStatus*(OrtCustomOpDomain*, const OrtCustomOp*)>;
using AddCustomOpDomain = Slot<28, OrtStatus*(OrtSessionOptions*, OrtCustomOpDomain*)>;
using GetTensorMutableData = Slot<51, OrtStatus*(OrtValue*, void**)>;
// The result belongs to the argument.
using CastTypeInfoToTensorInfo = Slot<55, OrtStatus*(const OrtTypeInfo*, const OrtTensorTypeAndShapeInfo**)>;
using CreateTensorTypeAndShapeInfo = Slot<57, OrtStatus*(OrtTensorTypeAndShapeInfo**)>;
using SetTensorElementType = Slot<58, OrtStatus*(OrtTensorTypeAndShapeInfo*, int type)>;
using SetDimensions = Slot<59, OrtStatus*(OrtTensorTypeAndShapeInfo*, const int64_t*, size_t count)>;
using GetTensorElementType = Slot<60, OrtStatus*(const OrtTensorTypeAndShapeInfo*, int*)>;
using GetDimensionsCount = Slot<61, OrtStatus*(const OrtTensorTypeAndShapeInfo*, size_t*)>;
using GetDimensions = Slot<62, OrtStatus*(const OrtTensorTypeAndShapeInfo*, int64_t*, size_t count)>;
using GetSymbolicDimensions = Slot<63, OrtStatus*(const OrtTensorTypeAndShapeInfo*, const char**, size_t count)>;
using MemoryInfoGetName = Slot<71, OrtStatus*(const OrtMemoryInfo*, const char**)>;
using MemoryInfoGetId = Slot<72, OrtStatus*(const OrtMemoryInfo*, int*)>;
using AllocatorAlloc = Slot<75, OrtStatus*(OrtAllocator*, size_t bytes, void**)>;
using AllocatorFree = Slot<76, OrtStatus*(OrtAllocator*, void*)>;
using AllocatorGetInfo = Slot<77, OrtStatus*(const OrtAllocator*, const OrtMemoryInfo**)>;
using KernelInfoGetAttributeInt = Slot<86, OrtStatus*(const OrtKernelInfo*, const char* name, int64_t*)>;
// The size counts the terminating NUL; a null buffer asks for the size.
using KernelInfoGetAttributeString = Slot<87, OrtStatus*(const OrtKernelInfo*, const char* name, char*, size_t*)>;
using KernelContextGetInputCount = Slot<88, OrtStatus*(const OrtKernelContext*, size_t*)>;
using KernelContextGetInput = Slot<90, OrtStatus*(const OrtKernelContext*, size_t index, const OrtValue**)>;
using KernelContextGetOutput =
    Slot<91, OrtStatus*(OrtKernelContext*, size_t index, const int64_t* dims, size_t rank, OrtValue**)>;
using ReleaseStatus = Slot<93, void(OrtStatus*)>;
using ReleaseTypeInfo = Slot<98, void(OrtTypeInfo*)>;
using ReleaseTensorTypeAndShapeInfo = Slot<99, void(OrtTensorTypeAndShapeInfo*)>;
using AddSessionConfigEntry = Slot<130, OrtStatus*(OrtSessionOptions*, const char* key, const char* value)>;
using ReleaseAllocator = Slot<132, void(OrtAllocator*)>;
// A null buffer asks for the number of entries.
using KernelInfoGetAttributeFloats = Slot<162, OrtStatus*(const OrtKernelInfo*, const char* name, float*, size_t*)>;
using KernelInfoGetAttributeInts = Slot<163, OrtStatus*(const OrtKernelInfo*, const char* name, int64_t*, size_t*)>;
using KernelContextGetGpuComputeStream = Slot<193, OrtStatus*(const OrtKernelContext*, void**)>;
using GetTensorMemoryInfo = Slot<194, OrtStatus*(const OrtValue*, const OrtMemoryInfo**)>;
using KernelInfoGetInputCount = Slot<230, OrtStatus*(const OrtKernelInfo*, size_t*)>;
using KernelInfoGetInputTypeInfo = Slot<234, OrtStatus*(const OrtKernelInfo*, size_t index, OrtTypeInfo**)>;
using HasSessionConfigEntry = Slot<237, OrtStatus*(const OrtSessionOptions*, const char* key, int* has)>;
// The size is that of the buffer; it is set to the length of the value and its terminating NUL.
using GetSessionConfigEntry =
    Slot<238, OrtStatus*(const OrtSessionOptions*, const char* key, char* value, size_t* size)>;
using KernelInfoGetNodeName = Slot<244, OrtStatus*(const OrtKernelInfo*, char*, size_t*)>;
using KernelInfoGetConstantInput =
    Slot<249, OrtStatus*(const OrtKernelInfo*, size_t index, int* is_constant, const OrtValue**)>;
using KernelContextGetAllocator = Slot<253, OrtStatus*(const OrtKernelContext*, const OrtMemoryInfo*, OrtAllocator**)>;
using ShapeInferGetInputTypeShape =
    Slot<268, OrtStatus*(const OrtShapeInferContext*, size_t index, OrtTensorTypeAndShapeInfo**)>;
using ShapeInferGetAttribute = Slot<269, OrtStatus*(const OrtShapeInferContext*, const char* name, const OrtOpAttr**)>;
using ShapeInferSetOutputTypeShape =
    Slot<270, OrtStatus*(const OrtShapeInferContext*, size_t index, const OrtTensorTypeAndShapeInfo*)>;
using SetSymbolicDimensions = Slot<271, OrtStatus*(OrtTensorTypeAndShapeInfo*, const char**, size_t count)>;
using ReadOpAttr = Slot<272, OrtStatus*(const OrtOpAttr*, int type, void* data, size_t bytes, size_t* written)>;
// `batches` groups of iterations are handed to the threads of the session's intra-op pool.
using KernelContextParallelFor = Slot<274, OrtStatus*(const OrtKernelContext*, void (*fn)(void*, size_t), size_t total,
                                                      size_t batches, void* user_data)>;
using KernelInfoGetAllocator = Slot<278, OrtStatus*(const OrtKernelInfo*, int mem_type, OrtAllocator**)>;
using GetKeyValuePairs =
    Slot<298, void(const OrtKeyValuePairs*, const char* const** keys, const char* const** values, size_t* count)>;
using ReleaseKeyValuePairs = Slot<300, void(OrtKeyValuePairs*)>;
// May give null where there are none.
using GetSessionOptionsConfigEntries = Slot<379, OrtStatus*(const OrtSessionOptions*, OrtKeyValuePairs**)>;
// The dims belong to the tensor; null where there are none.
using GetTensorElementTypeAndShapeDataReference =
    Slot<414, OrtStatus*(const OrtValue*, int* type, const int64_t** dims, size_t* rank)>;

}  // namespace ortconv::abi

// RegisterCustomOps: what ONNX Runtime looks up in this library, and the only symbol it exports.
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "ort/abi.h"
#include "ort/boundary.h"
#include "ort/conv_kernel.h"
#include "ort/infer_shape.h"

namespace ortconv {
namespace {

constexpr const char* kDomain = "org.ortconv";
constexpr const char* kRegistered = "ortconv.registered";
constexpr int kOldestMajor = 1, kOldestMinor = 24;

constexpr ConvOp kOps[] = {ConvOp::kConvTranspose, ConvOp::kConvTransposeToShape, ConvOp::kConv};

const char* name_of(ConvOp op) {
  switch (op) {
    case ConvOp::kConvTransposeToShape:
      return "ConvTransposeToShape";
    case ConvOp::kConv:
      return "Conv";
    case ConvOp::kConvTranspose:
      break;
  }
  return "ConvTranspose";
}

// What ONNX Runtime sees of one op with one element type. Inputs are X, W, [output_shape,] and an optional B.
struct CustomOp : OrtCustomOp {
  const OrtApi* api;
  ConvOp op;
  DataType dtype;

  CustomOp(const OrtApi* ort_api, ConvOp which, DataType type) : OrtCustomOp(), api(ort_api), op(which), dtype(type) {
    version = abi::kCustomOpVersion;
    GetName = [](const OrtCustomOp* self) { return name_of(of(self).op); };
    GetExecutionProviderType = [](const OrtCustomOp*) { return "CPUExecutionProvider"; };
    GetInputTypeCount = [](const OrtCustomOp* self) { return of(self).input_count(); };
    GetInputType = [](const OrtCustomOp* self, size_t index) {
      return static_cast<int>(of(self).is_output_shape(index) ? DataType::kInt64 : of(self).dtype);
    };
    GetInputCharacteristic = [](const OrtCustomOp* self, size_t index) {
      return index + 1 == of(self).input_count() ? abi::kOptional : abi::kRequired;
    };
    GetInputMemoryType = [](const OrtCustomOp*, size_t) { return abi::kMemTypeDefault; };
    GetOutputTypeCount = [](const OrtCustomOp*) { return size_t{1}; };
    GetOutputType = [](const OrtCustomOp* self, size_t) { return static_cast<int>(of(self).dtype); };
    GetOutputCharacteristic = [](const OrtCustomOp*, size_t) { return abi::kRequired; };
    GetVariadicInputMinArity = [](const OrtCustomOp*) { return 0; };
    GetVariadicInputHomogeneity = [](const OrtCustomOp*) { return 0; };
    GetVariadicOutputMinArity = [](const OrtCustomOp*) { return 0; };
    GetVariadicOutputHomogeneity = [](const OrtCustomOp*) { return 0; };
    GetStartVersion = [](const OrtCustomOp*) { return 1; };
    GetEndVersion = [](const OrtCustomOp*) { return 1; };
    CreateKernelV2 = create_kernel;
    KernelComputeV2 = [](void* kernel, OrtKernelContext* context) {
      const auto* conv = static_cast<const ConvKernel*>(kernel);
      return guarded(conv->api(), conv->subject(), [&] { conv->compute(context); });
    };
    KernelDestroy = [](void* kernel) { delete static_cast<ConvKernel*>(kernel); };
    // The output sizes of ConvTransposeToShape are data, which shape inference does not see.
    if (op != ConvOp::kConvTransposeToShape) InferOutputShapeFn = infer_output_shape;
  }

  static const CustomOp& of(const OrtCustomOp* self) { return *static_cast<const CustomOp*>(self); }

  bool is_output_shape(size_t index) const { return op == ConvOp::kConvTransposeToShape && index == 2; }
  size_t input_count() const { return op == ConvOp::kConvTransposeToShape ? 4 : 3; }

  static OrtStatus* create_kernel(const OrtCustomOp* self, const OrtApi* api, const OrtKernelInfo* info,
                                  void** kernel) {
    std::string subject;
    OrtStatus* status = guarded(api, kDomain, [&] { subject = node_subject(self, api, info); });
    if (status != nullptr) return status;
    return guarded(api, subject, [&] { *kernel = new ConvKernel(api, info, of(self).op, of(self).dtype, subject); });
  }

  // How messages name the node: org.ortconv.ConvTranspose 'up1'.
  static std::string node_subject(const OrtCustomOp* self, const OrtApi* api, const OrtKernelInfo* info) {
    size_t size = 0;
    invoke<abi::KernelInfoGetNodeName>(api, info, nullptr, &size);
    std::string name(size, '\0');
    invoke<abi::KernelInfoGetNodeName>(api, info, &name[0], &size);
    name.resize(size - 1);
    return std::string(kDomain) + "." + name_of(of(self).op) + " '" + name + "'";
  }

  static OrtStatus* infer_output_shape(const OrtCustomOp* self, OrtShapeInferContext* context) {
    try {
      infer_shape(of(self).api, of(self).op, context);
    } catch (...) {
      // Not inferred: allowed, and creating the kernel tells what is wrong, if anything is.
    }
    return nullptr;
  }
};

// The ops of one ONNX Runtime instance. ONNX Runtime keeps pointers to all of it for as long as a session lives.
struct Registry {
  std::vector<std::unique_ptr<CustomOp>> ops;
  OrtCustomOpDomain* domain = nullptr;

  explicit Registry(const OrtApi* api) {
    invoke<abi::CreateCustomOpDomain>(api, kDomain, &domain);
    for (ConvOp op : kOps) {
      for (DataType dtype : kDataTypes) {
        ops.push_back(std::make_unique<CustomOp>(api, op, dtype));
        invoke<abi::CustomOpDomainAdd>(api, domain, static_cast<const OrtCustomOp*>(ops.back().get()));
      }
    }
  }
};

// Made on first use and never freed, since sessions may still be closing while the process exits.
Registry& registry(const OrtApi* api) {
  static std::mutex& mutex = *new std::mutex;
  static auto& registries = *new std::map<const OrtApi*, std::unique_ptr<Registry>>;
  const std::lock_guard<std::mutex> lock(mutex);
  std::unique_ptr<Registry>& entry = registries[api];
  if (entry == nullptr) entry = std::make_unique<Registry>(api);
  return *entry;
}

std::string address_of(const OrtSessionOptions* options) {
  return std::to_string(reinterpret_cast<std::uintptr_t>(options));
}

// A domain that is added twice makes every session with these options fail, so a config entry tells which options have
// ours. It holds their address, because the copy of its options that a session gives has the entry, but no domains.
bool is_registered(const OrtApi* api, const OrtSessionOptions* options) {
  int has_entry = 0;
  invoke<abi::HasSessionConfigEntry>(api, options, kRegistered, &has_entry);
  if (has_entry == 0) return false;
  char address[32] = {};
  size_t size = sizeof(address);
  invoke<abi::GetSessionConfigEntry>(api, options, kRegistered, address, &size);
  return address == address_of(options);
}

bool is_too_old(const std::string& version) {
  const size_t dot = version.find('.');
  const int major = std::atoi(version.c_str());
  const int minor = dot == std::string::npos ? 0 : std::atoi(version.c_str() + dot + 1);
  return major < kOldestMajor || (major == kOldestMajor && minor < kOldestMinor);
}

}  // namespace
}  // namespace ortconv

extern "C" ORTCONV_EXPORT OrtStatus* RegisterCustomOps(OrtSessionOptions* options, const OrtApiBase* base) {
  using namespace ortconv;
  // Version 1 always exists and is enough to report that a newer one does not.
  return guarded(base->GetApi(1), kDomain, [&] {
    const std::string version = base->GetVersionString();
    if (is_too_old(version)) {
      fail("ONNX Runtime ", version, " is too old; allowed: ", kOldestMajor, ".", kOldestMinor, " or newer.");
    }
    const OrtApi* api = base->GetApi(abi::kApiVersion);
    if (api == nullptr) fail("ONNX Runtime ", version, " does not offer version ", abi::kApiVersion, " of its C API.");
    if (is_registered(api, options)) return;
    invoke<abi::AddCustomOpDomain>(api, options, registry(api).domain);
    invoke<abi::AddSessionConfigEntry>(api, options, kRegistered, address_of(options).c_str());
  });
}

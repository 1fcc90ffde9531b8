// CreateEpFactories and ReleaseEpFactory: what ONNX Runtime looks up in a library of execution providers.
#include <string>

#include "base/error.h"
#include "ep/abi.h"
#include "ep/provider.h"
#include "ort/abi/boundary.h"

namespace ortconv::ep {
namespace {

constexpr const char* kVendor = "ortconv";

struct Factory : OrtEpFactory {
  const OrtApi* api;
  bool fuses_once;

  Factory(const OrtApi* ort_api, const std::string& version_of_onnxruntime)
      : OrtEpFactory(), api(ort_api), fuses_once(version_of_onnxruntime.rfind("1.24.", 0) == 0) {
    version = abi::kEpVersion;
    GetName = [](const OrtEpFactory*) { return kProviderName; };
    GetVendor = [](const OrtEpFactory*) { return kVendor; };
    GetVendorId = [](const OrtEpFactory*) -> uint32_t { return 0; };
    GetVersion = [](const OrtEpFactory*) { return ORTCONV_VERSION; };
    GetSupportedDevices = [](OrtEpFactory* self, const OrtHardwareDevice* const* devices, size_t count,
                             OrtEpDevice** supported, size_t most, size_t* supported_count) -> OrtStatus* {
      const OrtApi* const own = static_cast<Factory*>(self)->api;
      *supported_count = 0;
      for (size_t i = 0; i < count && *supported_count < most; ++i) {
        if (abi::HardwareDeviceType::call(own, devices[i]) != abi::kCpuDevice) continue;
        const OrtKeyValuePairs* const none = nullptr;
        OrtEpDevice** const device = &supported[*supported_count];
        if (OrtStatus* status = abi::CreateEpDevice::call(own, self, devices[i], none, none, device)) return status;
        ++*supported_count;
      }
      return nullptr;
    };
    CreateEp = [](OrtEpFactory* self, const OrtHardwareDevice* const*, const OrtKeyValuePairs* const*, size_t,
                  const OrtSessionOptions* options, const OrtLogger*, OrtEp** out) {
      const auto* const factory = static_cast<Factory*>(self);
      return guarded(factory->api, kProviderName,
                     [&] { *out = make_provider(factory->api, options, factory->fuses_once); });
    };
    // The factory may be gone where sessions outlive the registration of the library.
    ReleaseEp = [](OrtEpFactory*, OrtEp* provider) { release_provider(provider); };
    // Without memory of its own a device has that of the CPU provider. ONNX Runtime asks all the same.
    CreateAllocator = [](OrtEpFactory*, const OrtMemoryInfo*, const OrtKeyValuePairs*,
                         OrtAllocator** out) -> OrtStatus* {
      *out = nullptr;
      return nullptr;
    };
    ReleaseAllocator = [](OrtEpFactory*, OrtAllocator*) {};
    CreateDataTransfer = [](OrtEpFactory*, OrtDataTransferImpl** out) -> OrtStatus* {
      *out = nullptr;
      return nullptr;
    };
    IsStreamAware = [](const OrtEpFactory*) { return false; };
  }
};

}  // namespace
}  // namespace ortconv::ep

extern "C" ORTCONV_EXPORT OrtStatus* CreateEpFactories(const char*, const OrtApiBase* base, const OrtLogger*,
                                                       OrtEpFactory** factories, size_t most, size_t* count) {
  using namespace ortconv;
  const OrtApi* const api = base->GetApi(abi::kEpVersion);
  // A version that exists wherever this is called is enough to report that a newer one does not.
  return guarded(api != nullptr ? api : base->GetApi(1), ep::kProviderName, [&] {
    if (api == nullptr) fail("ONNX Runtime ", base->GetVersionString(), " is too old; allowed: 1.24 or newer.");
    if (most < 1) fail("there is no room for a factory.");
    factories[0] = new ep::Factory(api, base->GetVersionString());
    *count = 1;
  });
}

extern "C" ORTCONV_EXPORT OrtStatus* ReleaseEpFactory(OrtEpFactory* factory) {
  delete static_cast<ortconv::ep::Factory*>(factory);
  return nullptr;
}

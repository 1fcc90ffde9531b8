#include "cuda/host/driver.h"

#include <mutex>

#include "cuda/host/error.h"
#include "cuda/host/shared_library.h"

namespace ortconv::cuda {
namespace {

#if defined(_WIN32)
constexpr const char* kDriverLibrary = "nvcuda.dll";
#else
constexpr const char* kDriverLibrary = "libcuda.so.1";
#endif

constexpr int kOldestDriver = 12000;

constexpr const char* kInstallDriver =
    "Install NVIDIA's driver (https://www.nvidia.com/drivers), or use ONNX Runtime's CPU provider.";
constexpr const char* kUpdateDriver =
    "Update NVIDIA's driver (https://www.nvidia.com/drivers), or use ONNX Runtime's CPU provider.";

template <class Pointer>
void bind(void* library, const char* name, Pointer* function) {
  *function = reinterpret_cast<Pointer>(find_function(library, name));
  if (*function == nullptr) device_fail(kDriverLibrary, " is too old: it has no ", name, ". ", kUpdateDriver);
}

Driver load() {
  std::string problem;
  void* const library = open_library(kDriverLibrary, &problem);
  if (library == nullptr) device_fail("there is no NVIDIA driver: ", problem, ". ", kInstallDriver);
  Driver driver{};
#define ORTCONV_BIND(function) bind(library, #function, &driver.function)
  ORTCONV_BIND(cuInit);
  ORTCONV_BIND(cuDriverGetVersion);
  ORTCONV_BIND(cuGetErrorName);
  ORTCONV_BIND(cuGetErrorString);
  ORTCONV_BIND(cuDeviceGet);
  ORTCONV_BIND(cuDeviceGetName);
  ORTCONV_BIND(cuDeviceGetAttribute);
  ORTCONV_BIND(cuDevicePrimaryCtxRetain);
  ORTCONV_BIND(cuCtxGetCurrent);
  ORTCONV_BIND(cuModuleLoadData);
  ORTCONV_BIND(cuModuleGetFunction);
  ORTCONV_BIND(cuFuncSetAttribute);
  ORTCONV_BIND(cuLaunchKernel);
  ORTCONV_BIND(cuStreamSynchronize);
  ORTCONV_BIND(cuThreadExchangeStreamCaptureMode);
#undef ORTCONV_BIND
  // The functions under the plain names are those of before CUDA 4.
  bind(library, "cuCtxPushCurrent_v2", &driver.cuCtxPushCurrent);
  bind(library, "cuCtxPopCurrent_v2", &driver.cuCtxPopCurrent);
  bind(library, "cuMemcpyHtoD_v2", &driver.cuMemcpyHtoD);

  driver.check(driver.cuInit(0), "cuInit");
  driver.check(driver.cuDriverGetVersion(&driver.version), "cuDriverGetVersion");
  if (driver.version < kOldestDriver) {
    device_fail("NVIDIA's driver is for CUDA ", release_name(driver.version),
                "; allowed: ", release_name(kOldestDriver), " or newer. ", kUpdateDriver);
  }
  return driver;
}

const char* advice(int result) {
  switch (result) {
    case kOutOfMemory:
      return " The GPU has too little free memory: close other programs that use it, take smaller inputs, or limit "
             "ONNX Runtime's share with the CUDA provider's option gpu_mem_limit.";
    case kNoDevice:
      return " This process sees no NVIDIA GPU: look at nvidia-smi and at CUDA_VISIBLE_DEVICES, or use ONNX Runtime's "
             "CPU provider.";
    default:
      return "";
  }
}

}  // namespace

const Driver& Driver::get() {
  static std::mutex& mutex = *new std::mutex;
  static const Driver* loaded = nullptr;
  const std::lock_guard<std::mutex> lock(mutex);
  if (loaded == nullptr) loaded = new Driver(load());
  return *loaded;
}

void Driver::check(int result, const char* function) const {
  if (result == kSuccess) return;
  const char *name = nullptr, *text = nullptr;
  if (cuGetErrorName(result, &name) != kSuccess || name == nullptr) name = "an error unknown to the driver";
  if (cuGetErrorString(result, &text) != kSuccess || text == nullptr) text = "no description";
  device_fail(function, " fails with ", name, " (", result, "): ", text, '.', advice(result));
}

std::string release_name(int version) {
  return std::to_string(version / 1000) + '.' + std::to_string(version % 1000 / 10);
}

}  // namespace ortconv::cuda

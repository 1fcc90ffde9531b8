#include "cuda/host/gpu.h"

#include <algorithm>
#include <cstdint>

#include "cuda/host/disk_cache.h"
#include "cuda/host/error.h"

namespace ortconv::cuda {
namespace {

constexpr size_t kSharedBytesOfAll = 48 << 10;  // that any function may be launched with

// Keeps a capture into a CUDA graph, by this or any other thread, from forbidding that a program is loaded or memory
// copied.
class CaptureTolerant {
 public:
  explicit CaptureTolerant(const Driver& driver) : driver_(driver) { exchange(); }
  ~CaptureTolerant() { exchange(); }
  CaptureTolerant(const CaptureTolerant&) = delete;
  CaptureTolerant& operator=(const CaptureTolerant&) = delete;

 private:
  void exchange() { driver_.cuThreadExchangeStreamCaptureMode(&mode_); }

  const Driver& driver_;
  int mode_ = kCaptureModeRelaxed;
};

// Whether the driver may have refused an image because it is damaged or made for others.
bool is_about_image(int result) {
  return result == kInvalidImage || result == kNoBinaryForGpu || result == kInvalidPtx ||
         result == kUnsupportedPtxVersion;
}

}  // namespace

Gpu& Gpu::get(int ordinal) {
  static std::mutex& mutex = *new std::mutex;
  static auto& gpus = *new std::map<int, Gpu*>;
  const std::lock_guard<std::mutex> lock(mutex);
  Gpu*& gpu = gpus[ordinal];
  if (gpu == nullptr) gpu = new Gpu(Driver::get(), ordinal);
  return *gpu;
}

Gpu::Gpu(const Driver& driver, int ordinal) : driver_(driver), nvrtc_(Nvrtc::get(driver.version)) {
  int device = 0, major = 0, minor = 0, shared_bytes = 0;
  char name[256] = {};
  const auto attribute = [&](int which, int* value) {
    driver.check(driver.cuDeviceGetAttribute(value, which, device), "cuDeviceGetAttribute");
  };
  driver.check(driver.cuDeviceGet(&device, ordinal), "cuDeviceGet");
  driver.check(driver.cuDeviceGetName(name, sizeof name - 1, device), "cuDeviceGetName");
  attribute(kComputeCapabilityMajor, &major);
  attribute(kComputeCapabilityMinor, &minor);
  attribute(kMultiprocessorCount, &device_.multiprocessors);
  attribute(kMaxSharedBytesOptIn, &shared_bytes);
  device_.sm = 10 * major + minor;
  device_.shared_bytes = static_cast<size_t>(shared_bytes);
  if (device_.sm < kLeastSm) {
    device_fail("GPU ", ordinal, ", ", name, ", has compute capability ", major, '.', minor,
                "; allowed: ", kLeastSm / 10, '.', kLeastSm % 10, " or newer. Use ONNX Runtime's CPU provider.");
  }
  target_ = nvrtc_.target_for(device_.sm);
  driver.check(driver.cuDevicePrimaryCtxRetain(&context_, device), "cuDevicePrimaryCtxRetain");
}

Function Gpu::function(const ProgramKey& key, const std::string& name, size_t shared_bytes) {
  Program* program;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::unique_ptr<Program>& entry = programs_[key];
    if (entry == nullptr) entry = std::make_unique<Program>();
    program = entry.get();
  }
  const std::lock_guard<std::mutex> lock(program->mutex);
  const CaptureTolerant tolerant(driver_);
  if (program->module == nullptr) program->module = load(key);
  auto found = program->functions.find(name);
  if (found == program->functions.end()) {
    Loaded loaded{nullptr, kSharedBytesOfAll};
    driver_.check(driver_.cuModuleGetFunction(&loaded.function, program->module, name.c_str()), "cuModuleGetFunction");
    found = program->functions.emplace(name, loaded).first;
  }
  Loaded& loaded = found->second;
  if (shared_bytes > loaded.shared_bytes) {
    driver_.check(driver_.cuFuncSetAttribute(loaded.function, kMaxDynamicSharedBytes, static_cast<int>(shared_bytes)),
                  "cuFuncSetAttribute");
    loaded.shared_bytes = shared_bytes;
  }
  return loaded.function;
}

void Gpu::upload(void* to, const std::vector<unsigned char>& bytes) const {
  const CaptureTolerant tolerant(driver_);
  driver_.check(driver_.cuMemcpyHtoD(reinterpret_cast<std::uintptr_t>(to), bytes.data(), bytes.size()), "cuMemcpyHtoD");
  driver_.check(driver_.cuStreamSynchronize(nullptr), "cuStreamSynchronize");
}

Module Gpu::load(const ProgramKey& program) const {
  const DiskCache cache = DiskCache::from_environment();
  const std::string text = source_of(program);
  std::string key = "nvrtc " + std::to_string(nvrtc_.version()) + " driver " + std::to_string(driver_.version) +
                    " sm " + std::to_string(device_.sm);
  for (const std::string& option : Nvrtc::options_of(program, target_)) key += ' ' + option;
  key += '\n' + text;

  Module module = nullptr;
  if (const auto kept = cache.read(key)) {
    const int result = driver_.cuModuleLoadData(&module, kept->c_str());
    if (result == kSuccess) return module;
    if (!is_about_image(result)) driver_.check(result, "cuModuleLoadData");
    cache.remove(key);
  }
  const std::string image = nvrtc_.compile(program, text, target_);
  const int result = driver_.cuModuleLoadData(&module, image.c_str());
  if (is_about_image(result)) {
    device_fail("NVIDIA's driver for CUDA ", release_name(driver_.version), " refuses what NVRTC ",
                release_name(nvrtc_.version()), " makes of ", program.source, ".cu with ", target_.option, " (error ",
                result, "). Update the driver (https://www.nvidia.com/drivers), or install NVRTC ",
                release_name(driver_.version), '.');
  }
  driver_.check(result, "cuModuleLoadData");
  cache.write(key, image);
  return module;
}

Gpu::Current::Current(const Gpu& gpu) {
  Context current = nullptr;
  gpu.driver_.check(gpu.driver_.cuCtxGetCurrent(&current), "cuCtxGetCurrent");
  if (current == gpu.context_) return;
  gpu.driver_.check(gpu.driver_.cuCtxPushCurrent(gpu.context_), "cuCtxPushCurrent");
  pushed_ = &gpu.driver_;
}

Gpu::Current::~Current() {
  Context popped = nullptr;
  if (pushed_ != nullptr) pushed_->cuCtxPopCurrent(&popped);
}

}  // namespace ortconv::cuda

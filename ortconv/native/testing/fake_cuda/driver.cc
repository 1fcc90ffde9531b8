#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <sstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "testing/fake_cuda/fake_cuda.h"
#include "testing/fake_cuda/image.h"
#include "testing/gpu/run.h"

#define EXPORTED extern "C" __attribute__((visibility("default")))

struct CUctx_st {
  int device;
};
struct CUmod_st {
  ortconv::fake::Image image;
};
struct CUfunc_st {
  const CUmod_st* module;
  std::string name;
  size_t shared_bytes;
};
struct CUstream_st;

namespace {

using ortconv::cuda::Launch;

constexpr int kSuccess = 0, kInvalidValue = 1, kNotInitialized = 3, kInvalidDevice = 101, kInvalidImage = 200;
constexpr int kInvalidContext = 201, kNotFound = 500, kLaunchFailed = 719, kCaptureUnsupported = 900;
constexpr int kDevices = 96;
constexpr int kCaptureModeGlobal = 0, kCaptureModeRelaxed = 2;
constexpr size_t kSharedBytesOfAll = 48 << 10;
constexpr size_t kParamBytes = 4096;

struct Failure {
  std::string function;
  int result = 0, skipped = 0;
};

struct Block {
  char* pages;
  size_t bytes;  // of the pages
};

struct State {
  std::mutex mutex;
  bool initialized = false;
  FakeGpu gpu{80, 3, 163 << 10, 13020};
  Failure failure;
  bool deferred = false, capturing = false, logging = false;
  std::string log, shown;
  std::map<CUstream_st*, std::vector<std::function<void()>>> waiting;
  std::map<char*, Block> blocks;  // by address
  ortconv::cuda::ptx::GlobalMemory memory;
  CUctx_st contexts[kDevices];
};

State& state() {
  static State& only = *new State;
  return only;
}

thread_local std::vector<CUctx_st*> contexts;
thread_local int capture_mode = kCaptureModeGlobal;

// Logs the call; returns what it is to fail with.
template <class... Details>
int called(const char* function, const Details&... details) {
  State& s = state();
  const std::lock_guard<std::mutex> lock(s.mutex);
  std::ostringstream line;
  line << function;
  ((line << ' ' << details), ...);
  if (s.logging) s.log += line.str() + '\n';
  if (s.failure.function == function && s.failure.skipped-- == 0) {
    s.failure.function.clear();
    return s.failure.result;
  }
  if (!s.initialized && std::strcmp(function, "cuInit") != 0 && std::strcmp(function, "cuDriverGetVersion") != 0) {
    return kNotInitialized;
  }
  return kSuccess;
}

bool capture_forbids() { return state().capturing && capture_mode != kCaptureModeRelaxed; }

void protect(int protection) {
  for (const auto& [address, block] : state().blocks) mprotect(block.pages, block.bytes, protection);
}

// Runs with the GPU's memory within reach. The emulator runs one launch at a time.
void on_gpu(const std::function<void()>& fn) {
  static std::mutex& running = *new std::mutex;
  const std::lock_guard<std::mutex> one(running);
  const std::lock_guard<std::mutex> lock(state().mutex);
  protect(PROT_READ | PROT_WRITE);
  fn();
  protect(PROT_NONE);
}

// What the launches on the CPU find wrong ends the process: a real GPU would go on with wrong numbers.
void emulate(const CUfunc_st& function, const Launch& launch) {
  try {
    const ortconv::fake::Image& image = function.module->image;
    if (state().blocks.empty()) state().memory.hold_everything();  // tensors are somebody else's
    ortconv::cuda::emulator::run_text(image.text, image.options, image.sm, launch, state().memory, {});
  } catch (const ortconv::Error& error) {
    std::fprintf(stderr, "the emulator: %s\n", error.what());
    std::abort();
  }
}

}  // namespace

EXPORTED void fake_configure(const FakeGpu* gpu) { state().gpu = *gpu; }

EXPORTED void fake_fail(const char* function, int result, int skipped) {
  const std::lock_guard<std::mutex> lock(state().mutex);
  state().failure = {function != nullptr ? function : "", result, skipped};
}

EXPORTED void fake_defer(bool defer) { state().deferred = defer; }

EXPORTED void fake_drain(void* stream) {
  std::vector<std::function<void()>> work;
  {
    const std::lock_guard<std::mutex> lock(state().mutex);
    work.swap(state().waiting[static_cast<CUstream_st*>(stream)]);
  }
  for (const auto& launch : work) on_gpu(launch);
}

EXPORTED void fake_capture(bool capturing) { state().capturing = capturing; }

EXPORTED void* fake_allocate(size_t bytes) {
  constexpr size_t kAlignment = 256;
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t used = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  const size_t whole = std::max((used + page - 1) / page * page, page);
  void* const pages = mmap(nullptr, whole + page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) return nullptr;
  const std::lock_guard<std::mutex> lock(state().mutex);
  // The page behind it stays out of reach.
  char* const address = static_cast<char*>(pages) + whole - used;
  state().blocks[address] = {static_cast<char*>(pages), whole};
  state().memory.add(address, bytes, ortconv::cuda::ptx::Content::kUndefined);
  mprotect(pages, whole, PROT_READ | PROT_WRITE);
  std::memset(pages, 0xff, whole);
  mprotect(pages, whole, PROT_NONE);
  return address;
}

EXPORTED void fake_free(void* memory) {
  const std::lock_guard<std::mutex> lock(state().mutex);
  const auto found = state().blocks.find(static_cast<char*>(memory));
  if (found == state().blocks.end()) {
    std::fprintf(stderr, "fake_free of what was not allocated\n");
    std::abort();
  }
  state().memory.remove(memory);
  munmap(found->second.pages, found->second.bytes + static_cast<size_t>(sysconf(_SC_PAGESIZE)));
  state().blocks.erase(found);
}

EXPORTED void fake_copy(void* to, const void* from, size_t bytes) {
  on_gpu([=] {
    if (bytes == 0) return;
    std::memcpy(to, from, bytes);
    state().memory.set_defined(to, bytes);
  });
}

EXPORTED const char* fake_log() {
  const std::lock_guard<std::mutex> lock(state().mutex);
  state().shown = state().log;
  return state().shown.c_str();
}

EXPORTED void fake_clear_log() {
  const std::lock_guard<std::mutex> lock(state().mutex);
  state().logging = true;
  state().log.clear();
}

EXPORTED int cuInit(unsigned) {
  const int result = called("cuInit");
  if (result == kSuccess) state().initialized = true;
  return result;
}

EXPORTED int cuDriverGetVersion(int* version) {
  *version = state().gpu.driver_version;
  return called("cuDriverGetVersion");
}

EXPORTED int cuGetErrorName(int result, const char** name) {
  *name = result == 2 ? "CUDA_ERROR_OUT_OF_MEMORY" : result == 100 ? "CUDA_ERROR_NO_DEVICE" : "CUDA_ERROR_OF_A_FAKE";
  return kSuccess;
}

EXPORTED int cuGetErrorString(int, const char** text) {
  *text = "as the test wants";
  return kSuccess;
}

EXPORTED int cuDeviceGet(int* device, int ordinal) {
  *device = ordinal;
  const int result = called("cuDeviceGet", ordinal);
  return result != kSuccess ? result : ordinal >= 0 && ordinal < kDevices ? kSuccess : kInvalidDevice;
}

EXPORTED int cuDeviceGetName(char* name, int size, int device) {
  std::snprintf(name, static_cast<size_t>(size), "Fake %d", state().gpu.sm);
  return called("cuDeviceGetName", device);
}

EXPORTED int cuDeviceGetAttribute(int* value, int attribute, int device) {
  const FakeGpu& gpu = state().gpu;
  switch (attribute) {
    case 16:
      *value = gpu.multiprocessors;
      break;
    case 75:
      *value = gpu.sm / 10;
      break;
    case 76:
      *value = gpu.sm % 10;
      break;
    case 97:
      *value = gpu.shared_bytes;
      break;
    default:
      return kInvalidValue;
  }
  return called("cuDeviceGetAttribute", attribute, device);
}

EXPORTED int cuDevicePrimaryCtxRetain(CUctx_st** context, int device) {
  *context = &state().contexts[device];
  (*context)->device = device;
  return called("cuDevicePrimaryCtxRetain", device);
}

EXPORTED int cuCtxGetCurrent(CUctx_st** context) {
  *context = contexts.empty() ? nullptr : contexts.back();
  return called("cuCtxGetCurrent");
}

EXPORTED int cuCtxPushCurrent_v2(CUctx_st* context) {
  const int result = called("cuCtxPushCurrent", context->device);
  if (result == kSuccess) contexts.push_back(context);
  return result;
}

EXPORTED int cuCtxPopCurrent_v2(CUctx_st** context) {
  if (contexts.empty()) return kInvalidContext;
  *context = contexts.back();
  contexts.pop_back();
  return called("cuCtxPopCurrent");
}

EXPORTED int cuModuleLoadData(CUmod_st** module, const void* image) {
  const int result = called("cuModuleLoadData");
  if (result != kSuccess) return result;
  if (contexts.empty()) return kInvalidContext;
  if (capture_forbids()) return kCaptureUnsupported;
  auto made = std::make_unique<CUmod_st>();
  if (!made->image.parse(static_cast<const char*>(image))) return kInvalidImage;
  const bool fits = made->image.intermediate ? made->image.sm <= state().gpu.sm : made->image.sm == state().gpu.sm;
  if (!fits) return kInvalidImage;
  *module = made.release();
  return kSuccess;
}

EXPORTED int cuModuleGetFunction(CUfunc_st** function, CUmod_st* module, const char* name) {
  const int result = called("cuModuleGetFunction", name);
  if (result != kSuccess) return result;
  if (module->image.text.find(name) == std::string::npos) return kNotFound;
  *function = new CUfunc_st{module, name, kSharedBytesOfAll};
  return kSuccess;
}

EXPORTED int cuFuncSetAttribute(CUfunc_st* function, int attribute, int value) {
  const int result = called("cuFuncSetAttribute", function->name, attribute, value);
  if (result != kSuccess) return result;
  if (attribute != 8 || value < 0 || value > state().gpu.shared_bytes) return kInvalidValue;
  function->shared_bytes = static_cast<size_t>(value);
  return kSuccess;
}

EXPORTED int cuLaunchKernel(CUfunc_st* function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                            unsigned block_y, unsigned block_z, unsigned shared_bytes, CUstream_st* stream,
                            void** params, void** extra) {
  const int result = called("cuLaunchKernel", function->name, "stream", static_cast<const void*>(stream));
  if (result != kSuccess) return result;
  if (contexts.empty()) return kInvalidContext;
  if (shared_bytes > function->shared_bytes || extra != nullptr) return kInvalidValue;
  if (uint64_t{block_x} * block_y * block_z == 0 || uint64_t{block_x} * block_y * block_z > 1024) return kInvalidValue;
  if (uint64_t{grid_x} * grid_y * grid_z == 0 || grid_y > 0xffff || grid_z > 0xffff) return kInvalidValue;
  Launch launch;
  launch.function = function->name;
  launch.grid[0] = grid_x, launch.grid[1] = grid_y, launch.grid[2] = grid_z;
  launch.block[0] = block_x, launch.block[1] = block_y, launch.block[2] = block_z;
  launch.shared_bytes = shared_bytes;
  // As many bytes as a kernel may take: only the program knows how many these are.
  const auto* bytes = static_cast<const unsigned char*>(params[0]);
  launch.params.assign(bytes, bytes + kParamBytes);
  const auto run = [function, launch] { emulate(*function, launch); };
  if (state().deferred) {
    const std::lock_guard<std::mutex> lock(state().mutex);
    state().waiting[stream].push_back(run);
  } else {
    on_gpu(run);
  }
  return kSuccess;
}

// Happens at once: what launches read was not theirs before.
EXPORTED int cuMemcpyHtoD_v2(unsigned long long to, const void* from, size_t bytes) {
  const int result = called("cuMemcpyHtoD", bytes);
  if (result != kSuccess) return result;
  if (contexts.empty()) return kInvalidContext;
  if (capture_forbids()) return kCaptureUnsupported;
  fake_copy(reinterpret_cast<void*>(to), from, bytes);
  return kSuccess;
}

EXPORTED int cuStreamSynchronize(CUstream_st* stream) {
  const int result = called("cuStreamSynchronize", static_cast<const void*>(stream));
  if (result != kSuccess) return result;
  if (contexts.empty()) return kInvalidContext;
  if (capture_forbids()) return kCaptureUnsupported;
  fake_drain(stream);
  return kSuccess;
}

EXPORTED int cuThreadExchangeStreamCaptureMode(int* mode) {
  std::swap(*mode, capture_mode);
  return called("cuThreadExchangeStreamCaptureMode");
}

#include "cuda/host/nvrtc.h"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <mutex>

#include "cuda/host/driver.h"
#include "cuda/host/error.h"
#include "cuda/host/shared_library.h"

extern "C" {
struct _nvrtcProgram;
}

namespace ortconv::cuda {
namespace {

constexpr int kOldestMajor = 12;
constexpr int kNewestMajor = 13;
constexpr const char* kVariable = "ORTCONV_NVRTC";

std::mutex& loading() {
  static std::mutex& mutex = *new std::mutex;
  return mutex;
}

std::vector<std::string>& candidates() {
  static auto& paths = *new std::vector<std::string>;
  return paths;
}

// What the system may find, for the newest CUDA that the driver knows first.
std::vector<std::string> system_names(int driver_version) {
  std::vector<std::string> names;
  const int newest = std::clamp(driver_version / 1000, kOldestMajor, kNewestMajor);
  for (int major = newest; major >= kOldestMajor; --major) {
#if defined(_WIN32)
    const std::string name = "nvrtc64_" + std::to_string(major) + "0_0.dll";
    const char* const toolkit = std::getenv("CUDA_PATH");
    if (toolkit != nullptr) names.push_back(std::string(toolkit) + "\\bin\\" + name);
    names.push_back(name);
#else
    names.push_back("libnvrtc.so." + std::to_string(major));
    names.push_back("/usr/local/cuda-" + std::to_string(major) + "/lib64/libnvrtc.so." + std::to_string(major));
    names.push_back("/usr/local/cuda/lib64/libnvrtc.so." + std::to_string(major));
#endif
  }
  return names;
}

// The library of built-in functions that NVRTC opens by this name when it compiles.
std::string builtins_name(int major, int minor) {
#if defined(_WIN32)
  return "nvrtc-builtins64_" + std::to_string(major) + std::to_string(minor) + ".dll";
#else
  return "libnvrtc-builtins.so." + std::to_string(major) + '.' + std::to_string(minor);
#endif
}

// How pip calls the compiler that the driver can work with.
std::string package_for(int driver_version) {
  return driver_version >= 13000 ? "nvidia-cuda-nvrtc" : "nvidia-cuda-nvrtc-cu12";
}

}  // namespace

struct Nvrtc::Functions {
  const char* (*nvrtcGetErrorString)(int result);
  int (*nvrtcVersion)(int* major, int* minor);
  int (*nvrtcGetNumSupportedArchs)(int* count);
  int (*nvrtcGetSupportedArchs)(int* archs);
  int (*nvrtcCreateProgram)(_nvrtcProgram** program, const char* text, const char* name, int headers,
                            const char* const* header_texts, const char* const* header_names);
  int (*nvrtcDestroyProgram)(_nvrtcProgram** program);
  int (*nvrtcCompileProgram)(_nvrtcProgram* program, int count, const char* const* options);
  int (*nvrtcGetProgramLogSize)(_nvrtcProgram* program, size_t* size);
  int (*nvrtcGetProgramLog)(_nvrtcProgram* program, char* log);
  int (*nvrtcGetCUBINSize)(_nvrtcProgram* program, size_t* size);
  int (*nvrtcGetCUBIN)(_nvrtcProgram* program, char* image);
  int (*nvrtcGetPTXSize)(_nvrtcProgram* program, size_t* size);
  int (*nvrtcGetPTX)(_nvrtcProgram* program, char* image);
};

void add_nvrtc_candidate(const std::string& path) {
  const std::lock_guard<std::mutex> lock(loading());
  if (std::find(candidates().begin(), candidates().end(), path) == candidates().end()) candidates().push_back(path);
}

const Nvrtc* Nvrtc::load(const std::string& name, int driver_version, std::string* problems) {
  const auto refuse = [&](const std::string& problem) {
    *problems += (problems->empty() ? "" : "; ") + problem;
    return nullptr;
  };
  std::string problem;
  void* const library = open_library(name, &problem);
  if (library == nullptr) return refuse(problem);

  auto functions = std::make_unique<Functions>();
  const char* missing = nullptr;
  const auto bind = [&](const char* function, auto* pointer) {
    *pointer = reinterpret_cast<std::remove_reference_t<decltype(*pointer)>>(find_function(library, function));
    if (*pointer == nullptr) missing = function;
  };
#define ORTCONV_BIND(function) bind(#function, &functions->function)
  ORTCONV_BIND(nvrtcGetErrorString);
  ORTCONV_BIND(nvrtcVersion);
  ORTCONV_BIND(nvrtcGetNumSupportedArchs);
  ORTCONV_BIND(nvrtcGetSupportedArchs);
  ORTCONV_BIND(nvrtcCreateProgram);
  ORTCONV_BIND(nvrtcDestroyProgram);
  ORTCONV_BIND(nvrtcCompileProgram);
  ORTCONV_BIND(nvrtcGetProgramLogSize);
  ORTCONV_BIND(nvrtcGetProgramLog);
  ORTCONV_BIND(nvrtcGetCUBINSize);
  ORTCONV_BIND(nvrtcGetCUBIN);
  ORTCONV_BIND(nvrtcGetPTXSize);
  ORTCONV_BIND(nvrtcGetPTX);
#undef ORTCONV_BIND
  if (missing != nullptr) return refuse(name + " has no " + missing);

  auto nvrtc = std::make_unique<Nvrtc>();
  nvrtc->functions_ = functions.get();
  int major = 0, minor = 0, count = 0;
  if (functions->nvrtcVersion(&major, &minor) != 0) return refuse(name + " does not tell its version");
  nvrtc->version_ = 1000 * major + 10 * minor;
  if (major < kOldestMajor) return refuse(name + " is of CUDA " + release_name(nvrtc->version_));
  if (major > driver_version / 1000) {
    return refuse(name + " is of CUDA " + release_name(nvrtc->version_) + ", which is newer than the driver's " +
                  release_name(driver_version));
  }
  // Not every release looks beside itself, where wheels have it: 13.0 does not. One that is loaded is found; one that
  // is not must not be found below the current folder.
  const std::string folder = folder_of(reinterpret_cast<const void*>(functions->nvrtcVersion));
  const std::string builtins = builtins_name(major, minor);
  if (open_library(folder + builtins, &problem) == nullptr && open_library(builtins, &problem) == nullptr &&
      may_search_current_folder()) {
    return refuse(problem);
  }
  if (functions->nvrtcGetNumSupportedArchs(&count) != 0 || count <= 0) {
    return refuse(name + " does not tell what it compiles for");
  }
  nvrtc->known_sms_.resize(count);
  if (functions->nvrtcGetSupportedArchs(nvrtc->known_sms_.data()) != 0) {
    return refuse(name + " does not tell what it compiles for");
  }
  functions.release();
  return nvrtc.release();
}

const Nvrtc& Nvrtc::get(int driver_version) {
  const std::lock_guard<std::mutex> lock(loading());
  static const Nvrtc* loaded = nullptr;
  if (loaded != nullptr) return *loaded;

  std::string problems;
  const char* const chosen = std::getenv(kVariable);
  if (chosen != nullptr && *chosen != '\0') {
    loaded = load(chosen, driver_version, &problems);
    if (loaded == nullptr) {
      device_fail("NVIDIA's runtime compiler NVRTC cannot be used from where ", kVariable, " says: ", problems, '.');
    }
    return *loaded;
  }
  std::vector<std::string> names = candidates();
  for (const std::string& name : system_names(driver_version)) names.push_back(name);
  for (const std::string& name : names) {
    loaded = load(name, driver_version, &problems);
    if (loaded != nullptr) return *loaded;
  }
  device_fail("NVIDIA's runtime compiler NVRTC is missing, or none that is there can be used: ", problems,
              ". Install it with pip install ", package_for(driver_version), ", or let ", kVariable,
              " name the file of the library.");
}

void Nvrtc::check(int result, const char* function) const {
  if (result == 0) return;
  device_fail("NVRTC ", release_name(version_), ": ", function, " fails with ", functions_->nvrtcGetErrorString(result),
              " (", result, ").");
}

Target Nvrtc::target_for(int sm) const {
  int nearest = 0;
  for (const int known : known_sms_) {
    if (known <= sm) nearest = std::max(nearest, known);
  }
  if (nearest == 0) {
    device_fail("NVRTC ", release_name(version_), " does not compile for compute capability ", sm / 10, '.', sm % 10,
                " any more. Install an older one: pip install nvidia-cuda-nvrtc-cu12.");
  }
  if (nearest == sm) return {"-arch=sm_" + std::to_string(sm), false};
  return {"-arch=compute_" + std::to_string(nearest), true};
}

std::vector<std::string> Nvrtc::options_of(const ProgramKey& program, const Target& target) {
  std::vector<std::string> options = {target.option, "-std=c++17"};
  options.insert(options.end(), program.options.begin(), program.options.end());
  return options;
}

std::string Nvrtc::compile(const ProgramKey& program, const std::string& text, const Target& target) const {
  const Functions& nvrtc = *functions_;
  _nvrtcProgram* raw = nullptr;
  check(nvrtc.nvrtcCreateProgram(&raw, text.c_str(), (program.source + ".cu").c_str(), 0, nullptr, nullptr),
        "nvrtcCreateProgram");
  const auto destroy = [&nvrtc](_nvrtcProgram* made) { nvrtc.nvrtcDestroyProgram(&made); };
  const std::unique_ptr<_nvrtcProgram, decltype(destroy)> made(raw, destroy);

  const std::vector<std::string> options = options_of(program, target);
  std::vector<const char*> pointers;
  for (const std::string& option : options) pointers.push_back(option.c_str());
  const int result = nvrtc.nvrtcCompileProgram(raw, static_cast<int>(pointers.size()), pointers.data());
  if (result != 0) {
    std::string log;
    size_t size = 0;
    if (nvrtc.nvrtcGetProgramLogSize(raw, &size) == 0 && size > 1) {
      log.resize(size);
      if (nvrtc.nvrtcGetProgramLog(raw, &log[0]) != 0) log.clear();
      log = log.c_str();  // without the NUL
    }
    device_fail("NVRTC ", release_name(version_), " does not compile ", program.source, ".cu for ", target.option, ": ",
                nvrtc.nvrtcGetErrorString(result), " (", result, "). ", log);
  }

  size_t size = 0;
  check(target.intermediate ? nvrtc.nvrtcGetPTXSize(raw, &size) : nvrtc.nvrtcGetCUBINSize(raw, &size),
        target.intermediate ? "nvrtcGetPTXSize" : "nvrtcGetCUBINSize");
  std::string image(size, '\0');
  check(target.intermediate ? nvrtc.nvrtcGetPTX(raw, &image[0]) : nvrtc.nvrtcGetCUBIN(raw, &image[0]),
        target.intermediate ? "nvrtcGetPTX" : "nvrtcGetCUBIN");
  return image;
}

}  // namespace ortconv::cuda

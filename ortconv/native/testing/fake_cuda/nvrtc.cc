#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "testing/fake_cuda/image.h"

#define EXPORTED extern "C" __attribute__((visibility("default")))

struct _nvrtcProgram {
  ortconv::fake::Image image;
  std::string log, made;
};

namespace {

constexpr int kSuccess = 0, kInvalidInput = 3, kInvalidOption = 5, kCompilation = 6, kBuiltins = 7;

// ORTCONV_FAKE_NVRTC: "VERSION FUNCTION RESULT SM...": the release as 13020, a function that fails, with what, and the
// devices that it compiles for. All of these by default.
struct Setting {
  int version = 13020;
  std::string failing;
  int result = 0;
  std::vector<int> sms;

  Setting() {
    if (const char* const text = std::getenv("ORTCONV_FAKE_NVRTC")) {
      std::istringstream in(text);
      in >> version >> failing >> result;
      for (int sm = 0; in >> sm;) sms.push_back(sm);
    }
    if (sms.empty()) sms = {75, 80, 86, 90, 100, 120};
  }
};

int called(const char* function) {
  const Setting setting;
  return setting.failing == function ? setting.result : kSuccess;
}

}  // namespace

EXPORTED const char* nvrtcGetErrorString(int) { return "NVRTC_ERROR_OF_A_FAKE"; }

EXPORTED int nvrtcVersion(int* major, int* minor) {
  const Setting setting;
  *major = setting.version / 1000;
  *minor = setting.version % 1000 / 10;
  return called("nvrtcVersion");
}

EXPORTED int nvrtcGetNumSupportedArchs(int* count) {
  *count = static_cast<int>(Setting().sms.size());
  return called("nvrtcGetNumSupportedArchs");
}

EXPORTED int nvrtcGetSupportedArchs(int* archs) {
  const Setting setting;
  std::copy(setting.sms.begin(), setting.sms.end(), archs);
  return called("nvrtcGetSupportedArchs");
}

EXPORTED int nvrtcCreateProgram(_nvrtcProgram** program, const char* text, const char*, int headers, const char* const*,
                                const char* const*) {
  if (headers != 0) return kInvalidInput;
  const int result = called("nvrtcCreateProgram");
  if (result != kSuccess) return result;
  *program = new _nvrtcProgram;
  (*program)->image.text = text;
  return kSuccess;
}

EXPORTED int nvrtcDestroyProgram(_nvrtcProgram** program) {
  delete *program;
  *program = nullptr;
  return kSuccess;
}

EXPORTED int nvrtcCompileProgram(_nvrtcProgram* program, int count, const char* const* options) {
  for (int i = 0; i < count; ++i) {
    const std::string option = options[i];
    if (option.rfind("-D", 0) == 0) {
      program->image.options.push_back(option);
    } else if (option.rfind("-arch=sm_", 0) == 0) {
      program->image.sm = std::atoi(option.c_str() + 9);
    } else if (option.rfind("-arch=compute_", 0) == 0) {
      program->image.intermediate = true;
      program->image.sm = std::atoi(option.c_str() + 14);
    } else if (option != "-std=c++17") {
      return kInvalidOption;
    }
  }
  const Setting setting;
  // As a release does that finds it only where the system looks.
  const std::string builtins = "libnvrtc-builtins.so." + std::to_string(setting.version / 1000) + '.' +
                               std::to_string(setting.version % 1000 / 10);
  if (dlopen(builtins.c_str(), RTLD_NOW) == nullptr) {
    program->log = "nvrtc: error: failed to open " + builtins;
    return kBuiltins;
  }
  if (std::find(setting.sms.begin(), setting.sms.end(), program->image.sm) == setting.sms.end()) return kInvalidOption;
  const int result = called("nvrtcCompileProgram");
  if (result == kCompilation) program->log = "line 1: as the test wants";
  if (result == kSuccess) program->made = program->image.serialized();
  return result;
}

EXPORTED int nvrtcGetProgramLogSize(_nvrtcProgram* program, size_t* size) {
  *size = program->log.size() + 1;
  return called("nvrtcGetProgramLogSize");
}

EXPORTED int nvrtcGetProgramLog(_nvrtcProgram* program, char* log) {
  std::memcpy(log, program->log.c_str(), program->log.size() + 1);
  return called("nvrtcGetProgramLog");
}

// Machine code and PTX are alike, but each is only there after a compilation to it.
EXPORTED int nvrtcGetCUBINSize(_nvrtcProgram* program, size_t* size) {
  *size = program->image.intermediate ? 0 : program->made.size();
  return called("nvrtcGetCUBINSize");
}

EXPORTED int nvrtcGetCUBIN(_nvrtcProgram* program, char* image) {
  if (!program->image.intermediate) std::memcpy(image, program->made.data(), program->made.size());
  return called("nvrtcGetCUBIN");
}

EXPORTED int nvrtcGetPTXSize(_nvrtcProgram* program, size_t* size) {
  *size = program->image.intermediate ? program->made.size() : 0;
  return called("nvrtcGetPTXSize");
}

EXPORTED int nvrtcGetPTX(_nvrtcProgram* program, char* image) {
  if (program->image.intermediate) std::memcpy(image, program->made.data(), program->made.size());
  return called("nvrtcGetPTX");
}

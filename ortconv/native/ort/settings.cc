#include "ort/settings.h"

#include <cstddef>
#include <sstream>

#include "cuda/host/nvrtc.h"
#include "ops/implementations/implementation.h"
#include "ops/quantized_convolution.h"
#include "ort/abi/boundary.h"

namespace ortconv {
namespace {

constexpr const char* kNvrtc = "ortconv.cuda.nvrtc";
#if defined(_WIN32)
constexpr char kPathSeparator = ';';
#else
constexpr char kPathSeparator = ':';
#endif

}  // namespace

std::string config_entry(const OrtApi* api, const OrtSessionOptions* options, const char* key) {
  int has_entry = 0;
  invoke<abi::HasSessionConfigEntry>(api, options, key, &has_entry);
  if (has_entry == 0) return "";
  size_t size = 0;
  invoke<abi::GetSessionConfigEntry>(api, options, key, nullptr, &size);
  std::string value(size, '\0');
  invoke<abi::GetSessionConfigEntry>(api, options, key, &value[0], &size);
  value.resize(size - 1);  // without the NUL
  return value;
}

namespace {

// The value of a config entry that is 0 or 1.
bool flag(const OrtApi* api, const OrtSessionOptions* options, const char* key, bool otherwise) {
  const std::string value = config_entry(api, options, key);
  if (value.empty()) return otherwise;
  if (value != "0" && value != "1") {
    fail("session config entry ", key, " = '", value, "' is not supported; allowed: 0, 1.");
  }
  return value == "1";
}

// The name of one of the implementations, or nothing.
std::string implementation_entry(const OrtApi* api, const OrtSessionOptions* options) {
  const std::string value = config_entry(api, options, kImplementationEntry);
  std::vector<const char*> names;
  for (const implementations::Entry& entry : implementations::list()) names.push_back(entry.name);
  names.insert(names.end(), {kIntegerPhases, kDequantized});
  std::string allowed;
  for (const char* const name : names) {
    if (value.empty() || value == name) return value;
    allowed += std::string(allowed.empty() ? "" : ", ") + name;
  }
  fail("session config entry ", kImplementationEntry, " = '", value, "' is not supported; allowed: ", allowed, ".");
}

}  // namespace

Settings Settings::read(const OrtApi* api, const OrtSessionOptions* options) {
  Settings settings;
  settings.tf32 = flag(api, options, kTf32Entry, settings.tf32);
  settings.matmul_compressed = flag(api, options, kMatMulCompressedEntry, settings.matmul_compressed);
  settings.fourier = flag(api, options, kFourierEntry, settings.fourier);
  settings.implementation = implementation_entry(api, options);
  settings.choices = config_entry(api, options, kChoicesEntry);
  settings.tuning = config_entry(api, options, kTuneEntry);
  std::istringstream paths(config_entry(api, options, kNvrtc));
  for (std::string path; std::getline(paths, path, kPathSeparator);) {
    if (!path.empty()) cuda::add_nvrtc_candidate(path);
  }
  return settings;
}

}  // namespace ortconv

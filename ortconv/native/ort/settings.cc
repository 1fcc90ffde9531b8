#include "ort/settings.h"

#include <cstddef>
#include <sstream>

#include "cuda/host/nvrtc.h"
#include "ort/boundary.h"

namespace ortconv {
namespace {

constexpr const char* kUseTf32 = "ortconv.cuda.use_tf32";
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

Settings Settings::read(const OrtApi* api, const OrtSessionOptions* options) {
  Settings settings;
  const std::string tf32 = config_entry(api, options, kUseTf32);
  if (!tf32.empty() && tf32 != "0" && tf32 != "1") {
    fail("session config entry ", kUseTf32, " = '", tf32, "' is not supported; allowed: 0, 1.");
  }
  settings.tf32 = tf32 == "1";
  std::istringstream paths(config_entry(api, options, kNvrtc));
  for (std::string path; std::getline(paths, path, kPathSeparator);) {
    if (!path.empty()) cuda::add_nvrtc_candidate(path);
  }
  return settings;
}

}  // namespace ortconv

#include "ort/settings.h"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <sstream>

#include "cuda/host/nvrtc.h"
#include "ops/implementations/implementation.h"
#include "ops/quantized_convolution.h"
#include "ort/abi/boundary.h"

namespace ortconv {
namespace {

constexpr const char* kPrefix = "ortconv.";
constexpr const char* kEntries[] = {kImplementationEntry, kChoicesEntry, kTuneEntry, kMatMulCompressedEntry,
                                    kFourierEntry,        kTf32Entry,    kNvrtcEntry};
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

// A setting, and where it comes from, for messages.
struct Setting {
  std::string value, origin;
};

// ortconv.cuda.use_tf32 -> ORTCONV_CUDA_USE_TF32
std::string variable_of(const char* key) {
  std::string name = key;
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return c == '.' ? '_' : static_cast<char>(std::toupper(c)); });
  return name;
}

// The config entry or, where there is none, the environment variable: servers do not pass config entries on.
Setting setting(const OrtApi* api, const OrtSessionOptions* options, const char* key) {
  const std::string entry = config_entry(api, options, key);
  if (!entry.empty()) return {entry, std::string("session config entry ") + key};
  const std::string name = variable_of(key);
  const char* const value = std::getenv(name.c_str());
  return {value == nullptr ? "" : value, "environment variable " + name};
}

}  // namespace

bool flag_entry(const OrtApi* api, const OrtSessionOptions* options, const char* key, bool otherwise) {
  const auto [value, origin] = setting(api, options, key);
  if (value.empty()) return otherwise;
  if (value != "0" && value != "1") fail(origin, " = '", value, "' is not supported; allowed: 0, 1.");
  return value == "1";
}

namespace {

// The name of one of the implementations, or nothing.
std::string implementation_setting(const OrtApi* api, const OrtSessionOptions* options) {
  const auto [value, origin] = setting(api, options, kImplementationEntry);
  std::vector<const char*> names;
  for (const implementations::Entry& entry : implementations::list()) names.push_back(entry.name);
  names.insert(names.end(), {kIntegerPhases, kIntegerTiles, kIntegerRows, kIntegerChannels, kDequantized});
  std::string allowed;
  for (const char* const name : names) {
    if (value.empty() || value == name) return value;
    allowed += std::string(allowed.empty() ? "" : ", ") + name;
  }
  fail(origin, " = '", value, "' is not supported; allowed: ", allowed, ".");
}

// Refuses entries with our prefix that nothing reads, such as misspelt ones.
void refuse_unknown_entries(const OrtApi* api, const OrtSessionOptions* options) {
  OrtKeyValuePairs* found = nullptr;
  invoke<abi::GetSessionOptionsConfigEntries>(api, options, &found);
  if (found == nullptr) return;
  const auto release = [api](OrtKeyValuePairs* pairs) { abi::ReleaseKeyValuePairs::call(api, pairs); };
  const std::unique_ptr<OrtKeyValuePairs, decltype(release)> pairs(found, release);
  const char *const *keys = nullptr, *const *values = nullptr;
  size_t count = 0;
  abi::GetKeyValuePairs::call(api, pairs.get(), &keys, &values, &count);
  std::string allowed;
  for (const char* const name : kEntries) allowed += (allowed.empty() ? "" : ", ") + std::string(name);
  for (size_t i = 0; i < count; ++i) {
    const std::string key = keys[i];
    if (key.rfind(kPrefix, 0) != 0 || key == kRegisteredMark || key == kProviderMark) continue;
    if (std::find(std::begin(kEntries), std::end(kEntries), key) != std::end(kEntries)) continue;
    fail("session config entry ", key, " is unknown; allowed: ", allowed, ".");
  }
}

bool is_writable(const std::string& file) { return std::ofstream(file, std::ios::app).is_open(); }

// Folders can be opened, but not read.
bool is_readable(const std::string& file) {
  std::ifstream stream(file);
  stream.peek();
  return stream.is_open() && !stream.bad();
}

// A file to write, or nothing.
std::string file_setting(const OrtApi* api, const OrtSessionOptions* options, const char* key, bool may_be_read_only) {
  const auto [value, origin] = setting(api, options, key);
  if (value.empty() || is_writable(value) || (may_be_read_only && is_readable(value))) return value;
  fail(origin, " = '", value, "' cannot be opened; allowed: a file that can be written.");
}

}  // namespace

Settings Settings::read(const OrtApi* api, const OrtSessionOptions* options) {
  refuse_unknown_entries(api, options);
  Settings settings;
  settings.tf32 = flag_entry(api, options, kTf32Entry, settings.tf32);
  settings.matmul_compressed = flag_entry(api, options, kMatMulCompressedEntry, settings.matmul_compressed);
  settings.fourier_operators = flag_entry(api, options, kFourierEntry, settings.fourier_operators);
  settings.implementation = implementation_setting(api, options);
  settings.choices = file_setting(api, options, kChoicesEntry, false);
  settings.tuning = file_setting(api, options, kTuneEntry, true);  // measured elsewhere
  std::istringstream paths(setting(api, options, kNvrtcEntry).value);
  for (std::string path; std::getline(paths, path, kPathSeparator);) {
    if (!path.empty()) cuda::add_nvrtc_candidate(path);
  }
  return settings;
}

}  // namespace ortconv

#include "cuda/host/disk_cache.h"

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/sha256.h"
#include "cuda/host/error.h"
#include "cuda/host/private_folder.h"

namespace ortconv::cuda {
namespace {

constexpr const char* kVariable = "ORTCONV_CUDA_CACHE";

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr ? value : "";
}

// A file: this header, the key, the value.
struct Header {
  char magic[16];
  uint64_t key_bytes, value_bytes;
  Sha256 content;  // of the key and the value
};
constexpr char kMagic[16] = "ortconv cuda 2\n";

std::string file_of(const std::string& key, const std::string& value) {
  const std::string content = key + value;
  Header header{};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.key_bytes = key.size();
  header.value_bytes = value.size();
  header.content = sha256(content);
  return std::string(reinterpret_cast<const char*>(&header), sizeof header) + content;
}

std::string name_of(const std::string& key) { return hexadecimal(sha256(key)) + ".bin"; }

}  // namespace

DiskCache::DiskCache(std::string folder) : folder_(std::move(folder)) {}

DiskCache DiskCache::from_environment() {
  const std::string chosen = variable(kVariable);
  if (chosen == "off") return DiskCache("");
  if (!chosen.empty()) {
    if (!is_absolute(chosen)) device_fail(kVariable, " is '", chosen, "'; allowed: an absolute path, or off.");
    return DiskCache(chosen);
  }
  // A relative path there has to be ignored.
#if defined(_WIN32)
  const std::string base = variable("LOCALAPPDATA");
#else
  std::string base = variable("XDG_CACHE_HOME");
  if (!is_absolute(base) && is_absolute(variable("HOME"))) base = variable("HOME") + "/.cache";
#endif
  return DiskCache(is_absolute(base) ? base + "/ortconv/cuda" : "");
}

std::optional<std::string> DiskCache::read(const std::string& key) const {
  if (folder_.empty()) return std::nullopt;
  const auto data = PrivateFolder(folder_, false).read(name_of(key));
  if (!data || data->size() < sizeof(Header) + key.size()) return std::nullopt;
  std::string value = data->substr(sizeof(Header) + key.size());
  if (*data != file_of(key, value)) return std::nullopt;
  return value;
}

void DiskCache::write(const std::string& key, const std::string& value) const {
  if (!folder_.empty()) PrivateFolder(folder_, true).write(name_of(key), file_of(key, value));
}

void DiskCache::remove(const std::string& key) const {
  if (!folder_.empty()) PrivateFolder(folder_, false).remove(name_of(key));
}

}  // namespace ortconv::cuda

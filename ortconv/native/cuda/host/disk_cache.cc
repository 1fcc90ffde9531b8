#include "cuda/host/disk_cache.h"

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <utility>

#if defined(_WIN32)
#include <direct.h>
#include <process.h>
#else
#include <sys/stat.h>
#include <unistd.h>
#endif

namespace ortconv::cuda {
namespace {

#if defined(_WIN32)
void make_folder(const std::string& path) { _mkdir(path.c_str()); }
int process_id() { return _getpid(); }
#else
void make_folder(const std::string& path) { mkdir(path.c_str(), 0700); }
int process_id() { return getpid(); }
#endif

// Creates what is missing of a path. What cannot be created shows when a file is written.
void make_folders(const std::string& path) {
  for (size_t i = 1; i <= path.size(); ++i) {
    if (i == path.size() || path[i] == '/' || path[i] == '\\') make_folder(path.substr(0, i));
  }
}

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr ? value : "";
}

std::string hexadecimal(unsigned long long number) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", number);
  return text;
}

// A file: this header, the key, the value.
struct Header {
  char magic[16];
  uint64_t key_bytes, value_bytes, value_hash;
};
constexpr char kMagic[16] = "ortconv cuda 1\n";

Header header_for(const std::string& key, const std::string& value) {
  Header header{};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.key_bytes = key.size();
  header.value_bytes = value.size();
  header.value_hash = hash_of(value);
  return header;
}

}  // namespace

// FNV-1a.
unsigned long long hash_of(const std::string& text, unsigned long long seed) {
  uint64_t hash = 14695981039346656037u ^ seed;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return hash;
}

DiskCache::DiskCache(std::string folder) : folder_(std::move(folder)) {}

DiskCache DiskCache::from_environment() {
  const std::string chosen = variable("ORTCONV_CUDA_CACHE");
  if (chosen == "off") return DiskCache("");
  if (!chosen.empty()) return DiskCache(chosen);
#if defined(_WIN32)
  std::string base = variable("LOCALAPPDATA");
#else
  std::string base = variable("XDG_CACHE_HOME");
  if (base.empty() && !variable("HOME").empty()) base = variable("HOME") + "/.cache";
#endif
  return DiskCache(base.empty() ? "" : base + "/ortconv/cuda");
}

std::string DiskCache::path_of(const std::string& key) const {
  return folder_ + "/" + hexadecimal(hash_of(key)) + hexadecimal(hash_of(key, 0x9e3779b97f4a7c15u)) + ".bin";
}

std::optional<std::string> DiskCache::read(const std::string& key) const {
  if (folder_.empty()) return std::nullopt;
  std::ifstream file(path_of(key), std::ios::binary);
  if (!file) return std::nullopt;
  const std::string data((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (data.size() < sizeof(Header) + key.size()) return std::nullopt;
  if (data.compare(sizeof(Header), key.size(), key) != 0) return std::nullopt;
  std::string value = data.substr(sizeof(Header) + key.size());
  const Header expected = header_for(key, value);
  if (std::memcmp(data.data(), &expected, sizeof expected) != 0) return std::nullopt;
  return value;
}

void DiskCache::write(const std::string& key, const std::string& value) const {
  if (folder_.empty()) return;
  static std::atomic<unsigned> written{0};
  make_folders(folder_);
  const std::string path = path_of(key);
  const std::string temporary = path + '.' + std::to_string(process_id()) + '.' + std::to_string(written++);
  {
    std::ofstream file(temporary, std::ios::binary);
    const Header header = header_for(key, value);
    file.write(reinterpret_cast<const char*>(&header), sizeof header);
    file << key << value;
    file.close();
    if (!file) {
      std::remove(temporary.c_str());
      return;
    }
  }
#if defined(_WIN32)
  std::remove(path.c_str());  // rename does not replace a file there
#endif
  if (std::rename(temporary.c_str(), path.c_str()) != 0) std::remove(temporary.c_str());
}

void DiskCache::remove(const std::string& key) const {
  if (!folder_.empty()) std::remove(path_of(key).c_str());
}

}  // namespace ortconv::cuda

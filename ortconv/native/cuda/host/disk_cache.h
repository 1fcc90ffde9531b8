// Compiled programs kept in files, for the next process.
#pragma once

#include <optional>
#include <string>

namespace ortconv::cuda {

// Any number of processes of one user may use one folder, and nobody else (see PrivateFolder): a file appears under its
// name only when it is complete, and one that is damaged counts as missing. Reading and writing throw nothing: without
// a folder that can be used, nothing is found and nothing kept.
class DiskCache {
 public:
  // Without a folder nothing is kept.
  explicit DiskCache(std::string folder);

  // The folder that the environment variable ORTCONV_CUDA_CACHE names, "off" for none; by default ortconv/cuda in the
  // user's cache folder: $XDG_CACHE_HOME, ~/.cache, or on Windows %LOCALAPPDATA%. Throws DeviceError where
  // ORTCONV_CUDA_CACHE is a relative path.
  static DiskCache from_environment();

  // The key tells everything that the value depends on.
  std::optional<std::string> read(const std::string& key) const;
  void write(const std::string& key, const std::string& value) const;
  void remove(const std::string& key) const;

  const std::string& folder() const { return folder_; }

 private:
  std::string folder_;
};

}  // namespace ortconv::cuda

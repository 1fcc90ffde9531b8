// A folder whose files nobody else can have written.
#pragma once

#include <optional>
#include <string>

namespace ortconv::cuda {

// Whether a path does not depend on the current folder.
bool is_absolute(const std::string& path);

// The folder and the files have to belong to this process's user, and only the user may write them; links are not
// followed, and what is no regular file counts as missing. On Windows, what a user's folder inherits decides who may
// write. Nothing throws: without a folder that can be used, nothing is found and nothing kept.
class PrivateFolder {
 public:
  // Creates what is missing of the path where `create`.
  PrivateFolder(const std::string& path, bool create);
  ~PrivateFolder();
  PrivateFolder(const PrivateFolder&) = delete;
  PrivateFolder& operator=(const PrivateFolder&) = delete;

  std::optional<std::string> read(const std::string& name) const;
  // The file appears under its name only when it is complete.
  void write(const std::string& name, const std::string& data) const;
  void remove(const std::string& name) const;

 private:
#if defined(_WIN32)
  std::string path_;
#else
  int folder_ = -1;
#endif
};

}  // namespace ortconv::cuda

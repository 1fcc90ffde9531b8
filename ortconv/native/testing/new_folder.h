// Folders of tests.
#pragma once

#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

namespace ortconv::test {

// Makes an empty folder, which is removed when the process that made it ends; "" where that fails.
inline std::string new_folder() {
  static struct Folders {
    const pid_t owner = getpid();
    std::vector<std::string> paths;
    ~Folders() {
      if (getpid() != owner) return;
      std::error_code ignored;
      for (const std::string& path : paths) std::filesystem::remove_all(path, ignored);
    }
  } folders;
  char name[] = "/tmp/ortconv_test_XXXXXX";
  if (mkdtemp(name) == nullptr) return "";
  return folders.paths.emplace_back(name);
}

}  // namespace ortconv::test

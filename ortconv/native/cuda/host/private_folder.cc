#include "cuda/host/private_folder.h"

#include <atomic>

#if defined(_WIN32)
#include <direct.h>
#include <process.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#else
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
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

// What cannot be created shows when the folder is opened.
void make_folders(const std::string& path) {
  for (size_t i = 1; i <= path.size(); ++i) {
    if (i == path.size() || path[i] == '/' || path[i] == '\\') make_folder(path.substr(0, i));
  }
}

// For a file that is not complete.
std::string temporary_name(const std::string& name) {
  static std::atomic<unsigned> written{0};
  return name + '.' + std::to_string(process_id()) + '.' + std::to_string(written++);
}

}  // namespace

#if defined(_WIN32)

bool is_absolute(const std::string& path) {
  const bool is_share = path.compare(0, 2, "\\\\") == 0;
  return is_share || (path.size() > 2 && path[1] == ':' && (path[2] == '\\' || path[2] == '/'));
}

PrivateFolder::PrivateFolder(const std::string& path, bool create) : path_(path) {
  if (create) make_folders(path);
}

PrivateFolder::~PrivateFolder() = default;

std::optional<std::string> PrivateFolder::read(const std::string& name) const {
  std::ifstream file(path_ + '/' + name, std::ios::binary);
  if (!file) return std::nullopt;
  return std::string((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
}

void PrivateFolder::write(const std::string& name, const std::string& data) const {
  const std::string path = path_ + '/' + name, temporary = path_ + '/' + temporary_name(name);
  std::ofstream file(temporary, std::ios::binary);
  file << data;
  file.close();
  std::remove(path.c_str());  // rename does not replace a file there
  if (!file || std::rename(temporary.c_str(), path.c_str()) != 0) std::remove(temporary.c_str());
}

void PrivateFolder::remove(const std::string& name) const { std::remove((path_ + '/' + name).c_str()); }

#else

namespace {

constexpr int kMode = S_IRUSR | S_IWUSR;

bool is_ours(const struct stat& status) {
  return status.st_uid == geteuid() && (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

// Calls transfer(bytes done so far) until `size` bytes are done; false where it fails.
template <class Transfer>
bool transferred(size_t size, Transfer transfer) {
  for (size_t done = 0; done < size;) {
    const ssize_t count = transfer(done);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    done += static_cast<size_t>(count);
  }
  return true;
}

}  // namespace

bool is_absolute(const std::string& path) { return !path.empty() && path[0] == '/'; }

PrivateFolder::PrivateFolder(const std::string& path, bool create) {
  if (create) make_folders(path);
  folder_ = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  struct stat status;
  if (folder_ < 0 || (fstat(folder_, &status) == 0 && is_ours(status))) return;
  close(folder_);
  folder_ = -1;
}

PrivateFolder::~PrivateFolder() {
  if (folder_ >= 0) close(folder_);
}

std::optional<std::string> PrivateFolder::read(const std::string& name) const {
  if (folder_ < 0) return std::nullopt;
  // A FIFO is opened at once, and found to be one.
  const int file = openat(folder_, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (file < 0) return std::nullopt;
  struct stat status;
  std::string data;
  bool whole = fstat(file, &status) == 0 && S_ISREG(status.st_mode) && is_ours(status);
  if (whole) {
    data.resize(static_cast<size_t>(status.st_size));
    whole = transferred(data.size(), [&](size_t done) { return ::read(file, &data[done], data.size() - done); });
  }
  close(file);
  return whole ? std::optional<std::string>(std::move(data)) : std::nullopt;
}

void PrivateFolder::write(const std::string& name, const std::string& data) const {
  if (folder_ < 0) return;
  const std::string temporary = temporary_name(name);
  const int file = openat(folder_, temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, kMode);
  if (file < 0) return;
  bool whole = transferred(data.size(), [&](size_t done) { return ::write(file, &data[done], data.size() - done); });
  whole = close(file) == 0 && whole;
  if (!whole || renameat(folder_, temporary.c_str(), folder_, name.c_str()) != 0) remove(temporary);
}

void PrivateFolder::remove(const std::string& name) const {
  if (folder_ >= 0) unlinkat(folder_, name.c_str(), 0);
}

#endif

}  // namespace ortconv::cuda

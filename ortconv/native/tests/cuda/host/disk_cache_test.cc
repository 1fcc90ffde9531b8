// Files of the disk cache and libraries that are not to be trusted.
#include "cuda/host/disk_cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include "base/sha256.h"
#include "cuda/host/shared_library.h"
#include "testing/new_folder.h"
#include "testing/test.h"

namespace ortconv::cuda {
namespace {

using test::new_folder;

const std::string kFakes = ORTCONV_FAKE_CUDA_FOLDER;

std::string output_of(const std::string& command) {
  FILE* const lines = popen(command.c_str(), "r");
  std::string text;
  for (int c = 0; (c = std::fgetc(lines)) != EOF;) text += static_cast<char>(c);
  pclose(lines);
  return text;
}

// The only file of a folder.
std::string file_in(const std::string& folder) {
  const std::string name = output_of("ls -A " + folder);
  return folder + '/' + name.substr(0, name.find('\n'));
}

mode_t mode_of(const std::string& path) {
  struct stat status;
  return lstat(path.c_str(), &status) == 0 ? status.st_mode & 0777 : 0;
}

TEST(sha256_of_what_the_standard_has) {
  const auto hash = [](const std::string& text) { return hexadecimal(sha256(text)); };
  EXPECT(hash("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", hash(""));
  EXPECT(hash("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad", hash("abc"));
  const std::string two = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
  EXPECT(hash(two) == "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1", hash(two));
  const std::string million(1000000, 'a');
  EXPECT(hash(million) == "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0", hash(million));
}

TEST(only_the_user_may_read_what_is_kept) {
  const std::string folder = new_folder() + "/deep/folder";
  DiskCache(folder).write("key", "value");
  EXPECT(mode_of(folder) == 0700, mode_of(folder));
  EXPECT(mode_of(file_in(folder)) == 0600, mode_of(file_in(folder)));
  EXPECT(DiskCache(folder).read("key") == "value", "read");
}

TEST(a_folder_that_others_may_write_is_not_used) {
  for (const mode_t mode : {0777, 0770, 0702}) {
    const std::string folder = new_folder();
    DiskCache(folder).write("key", "value");
    chmod(folder.c_str(), mode);
    EXPECT(!DiskCache(folder).read("key"), mode);
    DiskCache(folder).write("other", "value");
    EXPECT(file_in(folder).size() == folder.size() + 1 + 64 + 4, "nothing is written");
    chmod(folder.c_str(), 0700);
    EXPECT(DiskCache(folder).read("key") == "value", mode);
  }
}

TEST(a_folder_of_another_user_is_not_used) {
  if (geteuid() != 0) {
    std::printf("     a_folder_of_another_user_is_not_used: only root can make one\n");
    return;
  }
  const std::string folder = new_folder();
  DiskCache(folder).write("key", "value");
  const auto give = [&](const std::string& path, uid_t user) { return chown(path.c_str(), user, 0) == 0; };
  EXPECT(give(folder, 1) && !DiskCache(folder).read("key"), "folder");
  EXPECT(give(folder, 0) && DiskCache(folder).read("key") == "value", "ours again");
  EXPECT(give(file_in(folder), 1) && !DiskCache(folder).read("key"), "file");
}

TEST(a_link_to_a_folder_is_not_used) {
  const std::string folder = new_folder(), link = new_folder() + "/link";
  DiskCache(folder).write("key", "value");
  EXPECT(symlink(folder.c_str(), link.c_str()) == 0 && !DiskCache(link).read("key"), link);
}

TEST(a_file_that_others_may_write_is_not_used) {
  const std::string folder = new_folder();
  DiskCache(folder).write("key", "value");
  chmod(file_in(folder).c_str(), 0620);
  EXPECT(!DiskCache(folder).read("key"), "read");
  DiskCache(folder).write("key", "value");
  EXPECT(mode_of(file_in(folder)) == 0600 && DiskCache(folder).read("key") == "value", "another one takes its place");
}

TEST(what_is_no_file_is_not_used) {
  const std::string folder = new_folder(), elsewhere = new_folder() + "/elsewhere";
  DiskCache(folder).write("key", "value");
  const std::string file = file_in(folder);
  EXPECT(std::rename(file.c_str(), elsewhere.c_str()) == 0 && symlink(elsewhere.c_str(), file.c_str()) == 0, "link");
  EXPECT(!DiskCache(folder).read("key"), "a link");
  DiskCache(folder).write("key", "new value");
  EXPECT(DiskCache(folder).read("key") == "new value", "the link is replaced");
  EXPECT(output_of("tail -c 5 " + elsewhere) == "value", "and what it named is as it was");
  unlink(file.c_str());
  EXPECT(mkfifo(file.c_str(), 0600) == 0 && !DiskCache(folder).read("key"), "a FIFO");
  DiskCache(folder).write("key", "value");
  EXPECT(DiskCache(folder).read("key") == "value", "the FIFO is replaced");
}

// Two keys, in the file of one.
TEST(the_content_of_another_program_is_not_used) {
  const std::string folder = new_folder(), other = new_folder();
  DiskCache(folder).write("key", "value");
  DiskCache(other).write("another key", "value");
  EXPECT(std::rename(file_in(other).c_str(), file_in(folder).c_str()) == 0 && !DiskCache(folder).read("key"), "read");
}

// The dynamic linker reads LD_LIBRARY_PATH when a process begins: such a process is this program, which then opens the
// library and says where it was.
const char* const kOpened = "ORTCONV_TEST_OPEN";
[[maybe_unused]] const bool kIsChild = [] {
  const char* const name = std::getenv(kOpened);
  if (name == nullptr) return false;
  std::string problem;
  void* const library = open_library(name, &problem);
  const std::string folder = library == nullptr ? problem : folder_of(find_function(library, "nvrtcVersion"));
  std::fputs(folder.c_str(), stdout);
  std::fflush(stdout);
  _exit(0);
}();

TEST(libraries_below_the_current_folder_are_not_loaded) {
  const std::string folder = new_folder(), library = folder + "/libnvrtc.so.13";
  EXPECT(symlink((kFakes + "/libnvrtc.so.13").c_str(), library.c_str()) == 0 &&
             mkdir((folder + "/sub").c_str(), 0700) == 0 &&
             symlink(library.c_str(), (folder + "/sub/libnvrtc.so.13").c_str()) == 0,
         folder);
  char self[4096] = {};
  EXPECT(readlink("/proc/self/exe", self, sizeof self - 1) > 0, "self");
  const auto opened = [&](const std::string& path, const std::string& name) {
    return output_of("cd " + folder + " && LD_LIBRARY_PATH='" + path + "' " + kOpened + "=" + name + " " + self);
  };
  EXPECT(opened(folder, "libnvrtc.so.13") == folder + '/', opened(folder, "libnvrtc.so.13"));
  for (const char* const path : {":", "", "sub", "./sub", ":/nowhere", "/nowhere:sub"}) {
    const std::string text = opened(path, "libnvrtc.so.13");
    EXPECT(text.find(folder) == std::string::npos && text.find("sub/") == std::string::npos, path, ": ", text);
    EXPECT(opened(path + (":" + kFakes), "libnvrtc.so.13") == kFakes + '/', path);
  }
  for (const char* const name : {"./libnvrtc.so.13", "sub/libnvrtc.so.13"}) {
    EXPECT(opened("", name) == std::string(name) + " is no absolute path", opened("", name));
  }
}

}  // namespace
}  // namespace ortconv::cuda

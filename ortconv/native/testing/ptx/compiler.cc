#include "testing/ptx/compiler.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>

#include "base/error.h"

namespace ortconv::cuda::ptx {
namespace {

std::string content_of(const std::string& path) {
  std::ifstream in(path);
  return std::string((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
}

}  // namespace

const Program& compile(const std::string& text, const std::vector<std::string>& options, int sm) {
  std::string arguments = ' ' + std::to_string(sm);
  for (const std::string& option : options) arguments += ' ' + option;
  const char* const library = std::getenv("ORTCONV_PTX_NVRTC");
  if (library == nullptr) fail("ORTCONV_PTX_NVRTC has to name the file of NVRTC");
  struct stat file = {};
  if (stat(library, &file) != 0) fail("there is no file ", library);
  const size_t key = std::hash<std::string>()(library + std::to_string(file.st_mtime) + arguments + text);
  static std::map<size_t, Program> parsed;
  if (const auto found = parsed.find(key); found != parsed.end()) return found->second;

  const std::string path = std::string(ORTCONV_PTX_FOLDER "/program_") + std::to_string(key) + ".ptx";
  if (!std::ifstream(path).good()) {
    // Under names of this process until it is whole: tests that run at the same time may want the same program.
    const std::string own = path + std::to_string(getpid());
    std::ofstream(own + ".cu") << text;
    const std::string command =
        std::string("ORTCONV_NVRTC='") + library + "' " ORTCONV_PTX_COMPILER + ' ' + own + ".cu " + own + arguments;
    if (std::system(command.c_str()) != 0) fail("does not compile: ", command);
    if (std::rename(own.c_str(), path.c_str()) != 0) fail("cannot write ", path);
    std::remove((own + ".cu").c_str());
  }
  return parsed[key] = parse(content_of(path));
}

}  // namespace ortconv::cuda::ptx

// Compiles a device source to PTX: SOURCE RESULT SM OPTION...
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include "base/error.h"
#include "cuda/host/nvrtc.h"

int main(int count, char** arguments) {
  using namespace ortconv::cuda;
  if (count < 4) return 2;
  try {
    std::ifstream in(arguments[1]);
    const std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
    constexpr int kAnyDriver = 999990;
    const ProgramKey program = {"device", {arguments + 4, arguments + count}};
    const Target target = {std::string("-arch=compute_") + arguments[3], true};
    const std::string image = Nvrtc::get(kAnyDriver).compile(program, text, target);
    std::ofstream(arguments[2]) << image.c_str();
    return 0;
  } catch (const ortconv::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}

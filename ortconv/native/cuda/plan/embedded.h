// The device sources, embedded in the library by embed.cmake.
#pragma once

#include <vector>

namespace ortconv::cuda {

struct EmbeddedFile {
  const char* name;
  std::vector<const char*> pieces;  // the text, cut
};

const std::vector<EmbeddedFile>& embedded_files();

}  // namespace ortconv::cuda

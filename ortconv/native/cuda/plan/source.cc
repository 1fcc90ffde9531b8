#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "cuda/plan/embedded.h"
#include "cuda/plan/plan.h"

namespace ortconv::cuda {
namespace {

std::string text_of(const std::string& name) {
  for (const EmbeddedFile& file : embedded_files()) {
    if (name != file.name) continue;
    std::string text;
    for (const char* piece : file.pieces) text += piece;
    return text;
  }
  fail("there is no device source ", name, '.');
}

// Appends the file with the files that it includes in place, each where it is first asked for.
void append(const std::string& name, std::vector<std::string>* done, std::string* result) {
  if (std::find(done->begin(), done->end(), name) != done->end()) return;
  done->push_back(name);
  const std::string include = "#include \"cuda/";
  std::istringstream text(text_of(name));
  for (std::string line; std::getline(text, line);) {
    if (line.compare(0, include.size(), include) == 0) {
      append(line.substr(include.size(), line.size() - include.size() - 1), done, result);
    } else if (line != "#pragma once") {
      *result += line + '\n';
    }
  }
}

}  // namespace

std::string source_of(const ProgramKey& program) {
  std::string text;
  std::vector<std::string> done;
  append("device/" + program.source + ".cu", &done, &text);
  return text;
}

}  // namespace ortconv::cuda

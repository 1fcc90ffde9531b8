#include <algorithm>
#include <cstdio>

#include "testing/test.h"

namespace ortconv::test {
namespace {

int failures = 0;

}  // namespace

std::vector<Test>& tests() {
  static std::vector<Test> all;
  return all;
}

void report(const char* file, int line, const std::string& what) {
  constexpr int kMostPrinted = 20;
  if (++failures <= kMostPrinted) std::printf("%s:%d: %s\n", file, line, what.c_str());
}

std::string refusal(const std::function<void()>& fn) {
  try {
    fn();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace ortconv::test

// Runs the tests that are named, or all.
int main(int argc, char** argv) {
  using namespace ortconv::test;
  const std::vector<std::string> names(argv + 1, argv + argc);
  size_t count = 0;
  for (const Test& test : tests()) {
    if (!names.empty() && std::find(names.begin(), names.end(), test.name) == names.end()) continue;
    ++count;
    const int before = failures;
    test.run();
    std::printf("%s %s\n", failures == before ? "ok  " : "FAIL", test.name);
  }
  std::printf("%zu tests, %d failures\n", count, failures);
  return failures == 0 && (names.empty() || count == names.size()) ? 0 : 1;
}

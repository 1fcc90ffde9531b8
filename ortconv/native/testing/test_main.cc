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

int main() {
  using namespace ortconv::test;
  for (const Test& test : tests()) {
    const int before = failures;
    test.run();
    std::printf("%s %s\n", failures == before ? "ok  " : "FAIL", test.name);
  }
  std::printf("%zu tests, %d failures\n", tests().size(), failures);
  return failures == 0 ? 0 : 1;
}

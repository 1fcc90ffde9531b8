// A test framework in one screen: TEST registers, EXPECT records, main() (in test_main.cc) runs everything.
#pragma once

#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "base/error.h"

namespace ortconv::test {

// Random problems are divided by this: under sanitizers, which make all slow, fewer run the same code.
#if defined(ORTCONV_SANITIZED)
constexpr bool kSanitized = true;
constexpr int kShare = 4;
#else
constexpr bool kSanitized = false;
constexpr int kShare = 1;
#endif

struct Test {
  const char* name;
  void (*run)();
};

std::vector<Test>& tests();

struct Register {
  Register(const char* name, void (*run)()) { tests().push_back({name, run}); }
};

// Counts the failure and prints it; the test goes on.
void report(const char* file, int line, const std::string& what);

template <class... Parts>
std::string describe(const Parts&... parts) {
  std::ostringstream text;
  (text << ... << parts);
  return text.str();
}

// The message of the Error that fn throws; empty when it throws none.
std::string refusal(const std::function<void()>& fn);

}  // namespace ortconv::test

#define TEST(name)                                                      \
  static void name();                                                   \
  static const ::ortconv::test::Register register_##name(#name, &name); \
  static void name()

// EXPECT(condition, parts of a description...)
#define EXPECT(condition, ...)                                                                               \
  do {                                                                                                       \
    if (!(condition)) {                                                                                      \
      ::ortconv::test::report(__FILE__, __LINE__, ::ortconv::test::describe(#condition, ": ", __VA_ARGS__)); \
    }                                                                                                        \
  } while (false)

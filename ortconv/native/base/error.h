// The one exception of this library: a refusal with a message for the user. Everything that can throw runs under the
// catch of ort/boundary.h, which puts the node's name in front and hands the text to ONNX Runtime.
#pragma once

#include <cstdint>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace ortconv {

class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Throws Error; the message is the parts streamed one after the other.
template <class... Parts>
[[noreturn]] void fail(const Parts&... parts) {
  std::ostringstream message;
  (message << ... << parts);
  throw Error(message.str());
}

// A list as messages show it: [1, 2].
inline std::string to_string(const std::vector<int64_t>& values) {
  std::ostringstream text;
  text << '[';
  for (size_t i = 0; i < values.size(); ++i) text << (i == 0 ? "" : ", ") << values[i];
  text << ']';
  return text.str();
}

}  // namespace ortconv

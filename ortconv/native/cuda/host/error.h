// What goes wrong around the GPU: the machine's state, not the model's fault.
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>

namespace ortconv::cuda {

// Says what failed and, where that is known, what to install or do about it.
class DeviceError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Throws DeviceError; the message is the parts streamed one after the other.
template <class... Parts>
[[noreturn]] void device_fail(const Parts&... parts) {
  std::ostringstream message;
  (message << ... << parts);
  throw DeviceError(message.str());
}

}  // namespace ortconv::cuda

// The border between our exceptions and ONNX Runtime's statuses, in both directions.
#pragma once

#include <new>
#include <string>

#include "base/error.h"
#include "ort/abi/abi.h"

namespace ortconv {

// Calls a slot of OrtApi and throws Error with ONNX Runtime's text when it returns an error.
template <class Slot, class... Args>
void invoke(const OrtApi* api, Args... args) {
  OrtStatus* status = Slot::call(api, args...);
  if (status == nullptr) return;
  const std::string text = abi::GetErrorMessage::call(api, status);
  abi::ReleaseStatus::call(api, status);
  throw Error(text);
}

// Runs fn and turns whatever it throws into a status: "<subject>: <message>". Null when nothing was thrown.
template <class Fn>
OrtStatus* guarded(const OrtApi* api, const std::string& subject, Fn&& fn) noexcept {
  const auto status = [&](int code, const char* message) noexcept {
    try {
      return abi::CreateStatus::call(api, code, (subject + ": " + message).c_str());
    } catch (...) {
      return abi::CreateStatus::call(api, code, "org.ortconv: out of memory.");
    }
  };
  try {
    fn();
    return nullptr;
  } catch (const Error& error) {
    return status(abi::kErrorInvalidArgument, error.what());
  } catch (const std::bad_alloc&) {
    return status(abi::kErrorFail, "out of memory.");
  } catch (const std::exception& error) {
    return status(abi::kErrorFail, error.what());
  } catch (...) {
    return status(abi::kErrorFail, "unknown error.");
  }
}

}  // namespace ortconv

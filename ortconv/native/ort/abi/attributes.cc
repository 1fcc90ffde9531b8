#include "ort/abi/attributes.h"

#include "base/error.h"
#include "base/problem.h"
#include "ort/abi/boundary.h"

namespace ortconv {
namespace {

// Runs `read` and says which attribute it was about when that fails.
template <class Fn>
void reading(const char* name, const char* kind, Fn&& read) {
  try {
    read();
  } catch (const Error& error) {
    fail("attribute ", name, " is missing, empty or of another type; allowed: ", kind, " (", error.what(), ").");
  }
}

}  // namespace

int64_t KernelAttributes::integer(const char* name) const {
  int64_t value = 0;
  reading(name, "an int", [&] { invoke<abi::KernelInfoGetAttributeInt>(api_, info_, name, &value); });
  return value;
}

std::vector<int64_t> KernelAttributes::integers(const char* name) const {
  std::vector<int64_t> values;
  reading(name, "ints", [&] {
    size_t count = 0;
    invoke<abi::KernelInfoGetAttributeInts>(api_, info_, name, nullptr, &count);
    // Attributes of some other types read as an empty list. No list of ours may be empty.
    if (count == 0) fail("no ints found");
    values.resize(count);
    invoke<abi::KernelInfoGetAttributeInts>(api_, info_, name, values.data(), &count);
  });
  return values;
}

std::vector<float> KernelAttributes::numbers(const char* name) const {
  const auto holds = [&](auto read) {
    try {
      read();
      return true;
    } catch (const Error&) {
      return false;
    }
  };
  size_t count = 0;
  std::vector<float> values;
  const auto floats = [&] { invoke<abi::KernelInfoGetAttributeFloats>(api_, info_, name, nullptr, &count); };
  if (holds(floats) && count != 0) {
    values.resize(count);
    invoke<abi::KernelInfoGetAttributeFloats>(api_, info_, name, values.data(), &count);
    return values;
  }
  int64_t number = 0;
  size_t size = 0;
  const auto ints = [&] { invoke<abi::KernelInfoGetAttributeInts>(api_, info_, name, nullptr, &size); };
  const auto integer = [&] { invoke<abi::KernelInfoGetAttributeInt>(api_, info_, name, &number); };
  const auto text = [&] { invoke<abi::KernelInfoGetAttributeString>(api_, info_, name, nullptr, &size); };
  if (holds(floats) || holds(ints) || holds(integer) || holds(text)) {
    fail("attribute ", name, " is empty or of another type; allowed: floats.");
  }
  return values;
}

size_t InferenceAttributes::read(const char* name, int type, void* data, size_t bytes) const {
  const OrtOpAttr* attribute = nullptr;
  invoke<abi::ShapeInferGetAttribute>(api_, context_, name, &attribute);
  size_t written = 0;
  invoke<abi::ReadOpAttr>(api_, attribute, type, data, bytes, &written);
  if (written == 0) fail("attribute ", name, " is empty or of another type.");
  return written;
}

int64_t InferenceAttributes::integer(const char* name) const {
  int64_t value = 0;
  read(name, abi::kAttrInt, &value, sizeof value);
  return value;
}

std::vector<int64_t> InferenceAttributes::integers(const char* name) const {
  std::vector<int64_t> values(2 * kMaxSpatial);
  values.resize(read(name, abi::kAttrInts, values.data(), values.size() * sizeof(int64_t)) / sizeof(int64_t));
  return values;
}

}  // namespace ortconv

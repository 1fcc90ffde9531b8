// RegisterCustomOps: what ONNX Runtime looks up in a library of custom operators.
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/arch.h"
#include "ort/abi/abi.h"
#include "ort/abi/boundary.h"
#include "ort/abi/custom_op.h"
#include "ort/operators.h"
#include "ort/settings.h"

namespace ortconv {
namespace {

constexpr const char* kExactProducts = "session.x64quantprecision";
constexpr int kOldestMajor = 1, kOldestMinor = 24;

// The ops of one ONNX Runtime instance, for sessions with the same settings. ONNX Runtime keeps pointers to all of it
// for as long as a session lives.
struct Registry {
  CustomOps ops;
  OrtCustomOpDomain* domain = nullptr;

  Registry(const OrtApi* api, const Settings& settings) : ops(operators(api, settings)) {
    invoke<abi::CreateCustomOpDomain>(api, kDomain, &domain);
    for (const auto& op : ops) invoke<abi::CustomOpDomainAdd>(api, domain, op.get());
  }
};

// Made on first use and never freed, since sessions may still be closing while the process exits.
Registry& registry(const OrtApi* api, const Settings& settings) {
  static std::mutex& mutex = *new std::mutex;
  static auto& registries = *new std::map<std::pair<const OrtApi*, Settings>, std::unique_ptr<Registry>>;
  const std::lock_guard<std::mutex> lock(mutex);
  std::unique_ptr<Registry>& entry = registries[{api, settings}];
  if (entry == nullptr) entry = std::make_unique<Registry>(api, settings);
  return *entry;
}

// A domain that is added twice makes every session with these options fail, so a config entry tells which options have
// ours, and with which settings. It holds their address, because the copy of its options that a session gives has the
// entry, but no domains.
std::string address_of(const OrtSessionOptions* options) {
  return std::to_string(reinterpret_cast<std::uintptr_t>(options));
}

// The config entries that the ops were registered with, as they stand in the mark.
std::vector<std::pair<const char*, std::string>> marked_entries(const Settings& settings) {
  const auto entry = [](const char* name, const std::string& value) {
    return std::make_pair(name, std::string(" ") + name + "=" + value + ";");
  };
  return {entry(kTf32Entry, settings.tf32 ? "1" : "0"),
          entry(kMatMulCompressedEntry, settings.matmul_compressed ? "1" : "0"),
          entry(kFourierEntry, settings.fourier_operators ? "1" : "0"),
          entry(kImplementationEntry, settings.implementation),
          entry(kChoicesEntry, settings.choices),
          entry(kTuneEntry, settings.tuning)};
}

std::string mark_of(const OrtSessionOptions* options, const Settings& settings) {
  std::string mark = address_of(options);
  for (const auto& [name, text] : marked_entries(settings)) mark += text;
  return mark;
}

bool is_registered(const OrtApi* api, const OrtSessionOptions* options, const Settings& settings) {
  const std::string mark = config_entry(api, options, kRegisteredMark);
  if (mark.rfind(address_of(options) + " ", 0) != 0) return false;
  for (const auto& [name, text] : marked_entries(settings)) {
    if (mark.find(text) == std::string::npos) {
      fail("session config entry ", name,
           " was changed after the ops were registered in these options; it has to be set before.");
    }
  }
  return true;
}

// Without dot products of bytes ONNX Runtime's products of uint8 and int8 saturate, unless it is told to make uint8 of
// both, which with them takes twice as long. Who says either way is left alone.
void make_products_exact(const OrtApi* api, OrtSessionOptions* options) {
  if (ArchFlags::host().has_byte_dots() || !config_entry(api, options, kExactProducts).empty()) return;
  invoke<abi::AddSessionConfigEntry>(api, options, kExactProducts, "1");
}

bool is_too_old(const std::string& version) {
  const size_t dot = version.find('.');
  const int major = std::atoi(version.c_str());
  const int minor = dot == std::string::npos ? 0 : std::atoi(version.c_str() + dot + 1);
  return major < kOldestMajor || (major == kOldestMajor && minor < kOldestMinor);
}

}  // namespace
}  // namespace ortconv

extern "C" ORTCONV_EXPORT OrtStatus* RegisterCustomOps(OrtSessionOptions* options, const OrtApiBase* base) {
  using namespace ortconv;
  // Version 1 always exists and is enough to report that a newer one does not.
  return guarded(base->GetApi(1), kDomain, [&] {
    const std::string version = base->GetVersionString();
    if (is_too_old(version)) {
      fail("ONNX Runtime ", version, " is too old; allowed: ", kOldestMajor, ".", kOldestMinor, " or newer.");
    }
    const OrtApi* api = base->GetApi(abi::kApiVersion);
    if (api == nullptr) fail("ONNX Runtime ", version, " does not offer version ", abi::kApiVersion, " of its C API.");
    const Settings settings = Settings::read(api, options);
    if (is_registered(api, options, settings)) return;
    invoke<abi::AddCustomOpDomain>(api, options, registry(api, settings).domain);
    make_products_exact(api, options);
    invoke<abi::AddSessionConfigEntry>(api, options, kRegisteredMark, mark_of(options, settings).c_str());
  });
}

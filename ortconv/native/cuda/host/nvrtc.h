// NVIDIA's runtime compiler (NVRTC), loaded on first use.
#pragma once

#include <string>
#include <vector>

#include "cuda/plan/plan.h"

namespace ortconv::cuda {

// Names the file of an NVRTC library, to be tried before those that the system finds.
void add_nvrtc_candidate(const std::string& path);

// What a program is compiled to for one device.
struct Target {
  std::string option;  // -arch=...
  bool intermediate;   // PTX, which the driver translates, for a device younger than the compiler
};

class Nvrtc {
 public:
  // Loads a release that works with the driver on the first call: the file that the environment variable ORTCONV_NVRTC
  // names, else the candidates, else what the system finds. Throws DeviceError when there is none; the next call tries
  // again.
  static const Nvrtc& get(int driver_version);

  // As in 13020 for 13.2.
  int version() const { return version_; }

  // Throws DeviceError when the compiler no longer knows so old a device.
  Target target_for(int sm) const;

  // All options that the program is compiled with, the target's first.
  static std::vector<std::string> options_of(const ProgramKey& program, const Target& target);

  // Returns machine code or PTX. Throws DeviceError with the compiler's log when it does not compile.
  std::string compile(const ProgramKey& program, const std::string& text, const Target& target) const;

 private:
  struct Functions;

  // Null when the file is no NVRTC that can be used with the driver; `problems` then says more.
  static const Nvrtc* load(const std::string& name, int driver_version, std::string* problems);

  void check(int result, const char* function) const;

  const Functions* functions_ = nullptr;
  int version_ = 0;
  std::vector<int> known_sms_;
};

}  // namespace ortconv::cuda

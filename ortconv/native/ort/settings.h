// What a session's configuration says to this library.
#pragma once

#include <string>

#include "ort/abi.h"

namespace ortconv {

struct Settings {
  bool tf32 = false;  // of `ortconv.cuda.use_tf32`: float products may be formed in TF32 on a GPU

  // Reads the config entries, and tells the CUDA side which files of NVRTC the entry `ortconv.cuda.nvrtc` names,
  // separated as in PATH. Throws Error when a value is not allowed.
  static Settings read(const OrtApi* api, const OrtSessionOptions* options);

  friend bool operator<(const Settings& a, const Settings& b) { return a.tf32 < b.tf32; }
  friend bool operator==(const Settings& a, const Settings& b) { return a.tf32 == b.tf32; }
};

// The value of a config entry; empty where there is none.
std::string config_entry(const OrtApi* api, const OrtSessionOptions* options, const char* key);

}  // namespace ortconv

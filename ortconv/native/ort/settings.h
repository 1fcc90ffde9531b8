// What a session's configuration, or the environment, says to this library.
#pragma once

#include <string>
#include <tuple>

#include "ort/abi/abi.h"

namespace ortconv {

// Session config entries. Each has an environment variable, which counts where there is no entry: its name in capitals,
// with _ for the dots, as in ORTCONV_CUDA_USE_TF32.
constexpr const char* kTf32Entry = "ortconv.cuda.use_tf32";
constexpr const char* kImplementationEntry = "ortconv.implementation";
constexpr const char* kChoicesEntry = "ortconv.choices";
constexpr const char* kTuneEntry = "ortconv.tune";
constexpr const char* kMatMulCompressedEntry = "ortconv.matmul_compressed";
constexpr const char* kFourierEntry = "ortconv.fourier_operators";
constexpr const char* kNvrtcEntry = "ortconv.cuda.nvrtc";

// What this library, and its Python side for the execution provider, note in the options of a session.
constexpr const char* kRegisteredMark = "ortconv.registered";
constexpr const char* kProviderMark = "ortconv.ep";

struct Settings {
  bool tf32 = false;  // float products may be formed in TF32 on a GPU

  // Nodes of MatMulCompressed and GatherMatMulCompressed are given to this library. Otherwise ONNX Runtime inlines
  // their function bodies, which any of its providers runs, also those for which this library has no kernels.
  bool matmul_compressed = true;
  // The same for FourierTransform, ForwardSTFT, InverseSTFT and OverlapAdd.
  bool fourier_operators = true;

  // See ConvOptions.
  std::string implementation, choices, tuning;

  // Reads the settings, and tells the CUDA side which files of NVRTC the entry `ortconv.cuda.nvrtc` names,
  // separated as in PATH. Throws Error when a value is not allowed, or an entry `ortconv.*` is none of the above.
  static Settings read(const OrtApi* api, const OrtSessionOptions* options);

  friend bool operator<(const Settings& a, const Settings& b) {
    return std::tie(a.tf32, a.matmul_compressed, a.fourier_operators, a.implementation, a.choices, a.tuning) <
           std::tie(b.tf32, b.matmul_compressed, b.fourier_operators, b.implementation, b.choices, b.tuning);
  }
};

// The value of a config entry; empty where there is none.
std::string config_entry(const OrtApi* api, const OrtSessionOptions* options, const char* key);

// That of an entry, or of its environment variable, that is 0 or 1. Throws Error when it is anything else.
bool flag_entry(const OrtApi* api, const OrtSessionOptions* options, const char* key, bool otherwise);

}  // namespace ortconv

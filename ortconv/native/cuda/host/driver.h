// The slice of the CUDA driver API that this library uses, declared here so that building needs no CUDA toolkit, and
// loaded from the driver's library on first use.
#pragma once

#include <cstddef>
#include <string>

extern "C" {
struct CUctx_st;
struct CUfunc_st;
struct CUmod_st;
struct CUstream_st;
}

namespace ortconv::cuda {

using Context = CUctx_st*;
using Function = CUfunc_st*;
using Module = CUmod_st*;
using Stream = CUstream_st*;

// CUresult
constexpr int kSuccess = 0, kOutOfMemory = 2, kNoDevice = 100, kInvalidImage = 200, kNoBinaryForGpu = 209;
constexpr int kInvalidPtx = 218, kUnsupportedPtxVersion = 222;
// CUdevice_attribute
constexpr int kMultiprocessorCount = 16, kComputeCapabilityMajor = 75, kComputeCapabilityMinor = 76;
constexpr int kMaxSharedBytesOptIn = 97;
constexpr int kMaxDynamicSharedBytes = 8;  // CUfunction_attribute
constexpr int kCaptureModeRelaxed = 2;     // CUstreamCaptureMode

// Function pointers under their names in the driver. All return a CUresult.
struct Driver {
  int (*cuInit)(unsigned flags);
  int (*cuDriverGetVersion)(int* version);
  int (*cuGetErrorName)(int result, const char** name);
  int (*cuGetErrorString)(int result, const char** text);
  int (*cuDeviceGet)(int* device, int ordinal);
  int (*cuDeviceGetName)(char* name, int size, int device);
  int (*cuDeviceGetAttribute)(int* value, int attribute, int device);
  int (*cuDevicePrimaryCtxRetain)(Context* context, int device);
  int (*cuCtxGetCurrent)(Context* context);
  int (*cuCtxPushCurrent)(Context context);
  int (*cuCtxPopCurrent)(Context* context);
  int (*cuModuleLoadData)(Module* module, const void* image);
  int (*cuModuleGetFunction)(Function* function, Module module, const char* name);
  int (*cuFuncSetAttribute)(Function function, int attribute, int value);
  int (*cuLaunchKernel)(Function function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                        unsigned block_y, unsigned block_z, unsigned shared_bytes, Stream stream, void** params,
                        void** extra);
  int (*cuMemcpyHtoD)(unsigned long long to, const void* from, size_t bytes);
  int (*cuStreamSynchronize)(Stream stream);
  int (*cuThreadExchangeStreamCaptureMode)(int* mode);

  int version;  // 1000 * major + 10 * minor of the CUDA release that the driver is for

  // Loads and initializes the driver on the first call. Throws DeviceError when there is none that can be used; the
  // next call tries again.
  static const Driver& get();

  // Throws DeviceError with the driver's own words unless the result is success.
  void check(int result, const char* function) const;
};

// A CUDA release as messages show it: 13.2.
std::string release_name(int version);

}  // namespace ortconv::cuda

// What the CUDA execution provider launches for a convolution: programs, grids and arguments as plain values. Products
// by compressed weights have plans of their own, see compressed_plan.h.
//
// Nothing here knows a driver or ONNX Runtime: these are pure functions, which the CUDA kernels of ort/ carry out on a
// stream and the tests carry out on the CPU. Kernels exist for kFloat, kFloat16 and kBfloat16, and for ordinary
// convolutions of integers of 8 bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "base/dtype.h"
#include "base/problem.h"
#include "kernels/conv/conv.h"

namespace ortconv::cuda {

// The least compute capability that the kernels are written for: 7.5.
constexpr int kLeastSm = 75;

struct Device {
  int sm = kLeastSm;        // compute capability, 10 * major + minor
  int multiprocessors = 1;  // at least 1
  size_t shared_bytes = 0;  // most dynamic shared memory of a block, after opting in
};

// What the tensors of a run hold: floats of one type, or X and W integers of 8 bits, B and Y floats.
struct Elements {
  Elements(DataType all) : x(all), w(all), y(all) {}  // NOLINT(google-explicit-constructor): most runs have one type
  Elements(DataType integers_of_x, DataType integers_of_w) : x(integers_of_x), w(integers_of_w), y(DataType::kFloat) {}

  bool are_integers() const { return x != y; }

  DataType x, w, y;
  bool channels_have_scales = false;  // each output channel one, and a zero point; otherwise all have the same
};

struct Options {
  bool tf32 = false;  // float products may be formed in TF32
};

// The memory that a pointer among a kernel's arguments means. X, W, B, Residual and Y are the tensors of the run; W is
// there whether or not there are packed weights. A product by compressed weights has Codes, Scales and Zeros or a Table
// for W, and perhaps an Index. X and W of integers have XScale and Scales, and may have an XZero and Zeros.
enum class Buffer {
  kX,
  kW,
  kCodes,
  kXScale,
  kXZero,
  kScales,
  kZeros,
  kTable,
  kIndex,
  kPacked,
  kB,
  kResidual,
  kY,
  kScratch
};

// One compilation: a source and the macros it is compiled with.
struct ProgramKey {
  std::string source;
  std::vector<std::string> options;  // sorted, each -DNAME=VALUE

  friend bool operator==(const ProgramKey& a, const ProgramKey& b) {
    return a.source == b.source && a.options == b.options;
  }
  friend bool operator<(const ProgramKey& a, const ProgramKey& b) {
    return std::tie(a.source, a.options) < std::tie(b.source, b.options);
  }
};

struct Pointer {
  size_t at;  // byte offset of the pointer in Launch::params
  Buffer buffer;
  size_t offset = 0;  // bytes into the buffer
};

struct Launch {
  ProgramKey program;
  std::string function;  // its name in the program, extern "C"
  uint32_t grid[3] = {1, 1, 1};
  uint32_t block[3] = {1, 1, 1};
  size_t shared_bytes = 0;            // dynamic; beyond 48 KiB the function must be told to allow it
  std::vector<unsigned char> params;  // the kernel's only argument, a struct by value
  std::vector<Pointer> pointers;      // where to write addresses into params
};

constexpr int64_t kBufferAlignment = 256;  // of Packed and Scratch, in bytes

// Launches in the order in which they run, each after the one before has ended.
struct WeightPlan {
  size_t packed_bytes = 0;  // none: the run reads W itself
  std::vector<Launch> launches;
};

struct Plan {
  size_t scratch_bytes = 0;
  std::vector<Launch> launches;  // none: the result is empty
};

// Packs the weights. What the buffer then holds depends on nothing but the arguments, and of `problem` only on what
// weight_problem() sets, so it serves every run of a node whose weights are constant. Launches use W and Packed, and
// Zeros.
WeightPlan plan_weights(const Elements& elements, kernels::Op op, const ConvProblem& problem, const Device& device,
                        const Options& options);

// One run of a complete problem. Where the weights are not `packed` beforehand and need be, the run packs them into its
// scratch. Packed and Scratch are aligned to kBufferAlignment, the tensors to the size of their elements. B is read
// where there is a `bias`; where there is a `residual`, it is added to Y before the activation.
Plan plan_run(const Elements& elements, kernels::Op op, const ConvProblem& problem, const Device& device,
              const Options& options, bool packed, bool bias, bool residual = false);

// The complete CUDA C++ text of a program; it includes nothing.
std::string source_of(const ProgramKey& program);

}  // namespace ortconv::cuda

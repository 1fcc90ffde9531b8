// Plans of convolutions on CUDA: which kernels to launch, with which grids and arguments, as plain values. MatMulNBits
// and the Fourier operators have plans of their own, see compressed_plan.h and fourier_plan.h.
//
// Planning is pure: it uses neither a driver nor ONNX Runtime. ort/ launches a plan on a stream; the tests run it on
// the CPU. Supported are float, float16 and bfloat16, and 8-bit integers with float or 8-bit results.
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

// The lowest supported compute capability, 7.5.
constexpr int kLeastSm = 75;

struct Device {
  int sm = kLeastSm;        // compute capability, 10 * major + minor
  int multiprocessors = 1;  // at least 1
  size_t shared_bytes = 0;  // the most dynamic shared memory a block may opt in to
};

// Element types of the tensors: one floating-point type; or 8-bit integers for X and W, float for B, and either for Y.
struct Elements {
  Elements(DataType all) : x(all), w(all), y(all) {}  // NOLINT(google-explicit-constructor): most runs have one type
  Elements(DataType integers_of_x, DataType integers_of_w, DataType of_y = DataType::kFloat)
      : x(integers_of_x), w(integers_of_w), y(of_y) {}

  bool are_integers() const { return is_integer(x); }
  bool are_quantized() const { return is_integer(y); }

  DataType x, w, y;
  bool channels_have_scales = false, channels_have_zeros = false;  // of W, per output channel

 private:
  static bool is_integer(DataType dtype) { return dtype == DataType::kUint8 || dtype == DataType::kInt8; }
};

// What is added to sums, or multiplies them, besides scales and activation.
struct Terms {
  bool bias = false;          // B is read: a number for each output channel,
  bool element_bias = false;  // or for each element of an image
  bool residual = false;      // added before the activation
  bool affine = false;        // Factor and Addend are read: they come behind the activation
};

struct Options {
  bool tf32 = false;  // float may be multiplied in TF32
};

// The memory that a pointer in a kernel's arguments refers to. X, W, B, Residual and Y are the node's tensors; W is
// given even where there are packed weights. In place of W, MatMulNBits has Codes, Scales, and Zeros or Table, and with
// experts Index. Integer convolutions have XScale and Scales, and optionally XZero and Zeros; with 8-bit results YScale
// and YZero, with their residual ResidualScale and ResidualZero, and where they are affine Factor and Addend. Fourier
// transforms have Window, Gains and Sines where the operator has these inputs, and Tables (see fourier_tables.h).
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
  kWindow,
  kGains,
  kSines,
  kTables,
  kPacked,
  kB,
  kResidual,
  kResidualScale,
  kResidualZero,
  kFactor,
  kAddend,
  kYScale,
  kYZero,
  kY,
  kScratch  // the last one, see Addresses
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

// Plans the packing of weights. The packed buffer depends on the arguments alone, and of `problem` only on what
// weight_problem() sets, so it serves every run of a node with constant weights. Launches use W, Zeros and Packed.
WeightPlan plan_weights(const Elements& elements, kernels::Op op, const ConvProblem& problem, const Device& device,
                        const Options& options);

// Plans one run of a complete problem. Unless the weights are already `packed`, the run packs them into its scratch.
// Packed and Scratch are aligned to kBufferAlignment, the tensors to the size of their elements. Only 8-bit results
// have terms other than a bias of channels and a residual.
Plan plan_run(const Elements& elements, kernels::Op op, const ConvProblem& problem, const Device& device,
              const Options& options, bool packed, const Terms& terms);

// The complete CUDA C++ text of a program; it includes nothing.
std::string source_of(const ProgramKey& program);

}  // namespace ortconv::cuda

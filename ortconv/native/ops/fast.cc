#include "ops/fast.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/float16.h"
#include "ops/parallel.h"

namespace ortconv {
namespace {

// The kernels copy src with zeros around it, as wide as the kernel reaches: fine unless the reach is absurd.
bool is_compact(const ConvProblem& p) {
  constexpr double kMostHaloElements = 16 << 20;
  constexpr int64_t kMostStride = 4096;
  double halo = static_cast<double>(p.ic / p.g);
  for (int i = 0; i < p.ndims; ++i) {
    if (p.stride[i] > kMostStride) return false;
    halo *= static_cast<double>((p.ker[i] - 1) * p.dilation[i] + 1);
  }
  return halo <= kMostHaloElements;
}

// Those zeros, multiplied by an infinite weight, would give a NaN that the definition does not have.
bool all_finite(const float* wei, int64_t count) {
  constexpr uint32_t kExponent = 0x7f800000u;
  uint32_t found = 0;  // no early exit, so that the loop vectorizes
  for (int64_t i = 0; i < count; ++i) found |= (bits_of(wei[i]) & kExponent) == kExponent ? 1u : 0u;
  return found == 0;
}

int64_t product(const int64_t* sizes, int count) {
  int64_t result = 1;
  for (int i = 0; i < count; ++i) result *= sizes[i];
  return result;
}

int64_t src_count(const ConvProblem& p) { return p.mb * p.ic * product(p.src_size, p.ndims); }
int64_t dst_count(const ConvProblem& p) { return p.mb * p.oc * product(p.dst_size, p.ndims); }

int64_t wei_count(const ConvProblem& p, kernels::Op op) {
  const int64_t channels = op == kernels::Op::kConv ? p.oc * (p.ic / p.g) : p.ic * (p.oc / p.g);
  return channels * product(p.ker, p.ndims);
}

inline Float16 narrowed(Float16, float value) { return to_float16(value); }
inline Bfloat16 narrowed(Bfloat16, float value) { return to_bfloat16(value); }

// Calls fn with a Float16 or a Bfloat16.
template <class Fn>
void with_half(DataType dtype, Fn&& fn) {
  dtype == DataType::kFloat16 ? fn(Float16()) : fn(Bfloat16());
}

// Calls fn(begin, end) for pieces of [0, count).
template <class Fn>
void in_pieces(int64_t count, const Parallel& parallel, Fn&& fn) {
  constexpr int64_t kPiece = 1 << 14;
  for_each(parallel, (count + kPiece - 1) / kPiece,
           [&](int64_t piece) { fn(piece * kPiece, std::min(count, (piece + 1) * kPiece)); });
}

void widen(DataType dtype, const void* in, int64_t count, float* out, const Parallel& parallel) {
  with_half(dtype, [&](auto zero) {
    const auto* from = static_cast<const decltype(zero)*>(in);
    in_pieces(count, parallel, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) out[i] = to_float(from[i]);
    });
  });
}

void narrow(DataType dtype, const float* in, int64_t count, void* out, const Parallel& parallel) {
  with_half(dtype, [&](auto zero) {
    auto* to = static_cast<decltype(zero)*>(out);
    in_pieces(count, parallel, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) to[i] = narrowed(zero, in[i]);
    });
  });
}

// Where a run of 16-bit floats keeps its float copies in the scratch, in bytes.
struct Copies {
  size_t src = 0, dst, bias, kernel;

  explicit Copies(const ConvProblem& p) {
    const auto after = [](size_t begin, int64_t floats) {
      return (begin + static_cast<size_t>(floats) * sizeof(float) + 63) / 64 * 64;
    };
    dst = after(src, src_count(p));
    bias = after(dst, dst_count(p));
    kernel = after(bias, p.oc);
  }
};

}  // namespace

FastConvolution::FastConvolution(DataType dtype, kernels::PlanPtr plan, std::vector<float> wei)
    : dtype_(dtype), plan_(std::move(plan)), wei_(std::move(wei)) {}

std::unique_ptr<FastConvolution> FastConvolution::make(DataType dtype, kernels::Op op, const ConvProblem& problem,
                                                       const void* wei, Weights lifetime, const ArchFlags& arch) {
  const bool is_half = dtype == DataType::kFloat16 || dtype == DataType::kBfloat16;
  if (!(is_half || dtype == DataType::kFloat) || !is_compact(problem)) return nullptr;
  const int64_t count = wei_count(problem, op);
  std::vector<float> copy(is_half ? static_cast<size_t>(count) : 0);
  if (is_half) widen(dtype, wei, count, copy.data(), serial());
  const float* floats = is_half ? copy.data() : static_cast<const float*>(wei);
  if (!all_finite(floats, count)) return nullptr;
  kernels::PlanPtr plan = kernels::make_plan(op, problem, lifetime == Weights::kConstant ? floats : nullptr, arch);
  if (plan == nullptr) return nullptr;
  if (lifetime == Weights::kConstant) copy = std::vector<float>();  // the plan holds them
  return std::unique_ptr<FastConvolution>(new FastConvolution(dtype, std::move(plan), std::move(copy)));
}

size_t FastConvolution::scratch_bytes(const ConvProblem& problem, int threads) const {
  const size_t bytes = kernels::scratch_bytes(*plan_, problem, threads);
  return dtype_ == DataType::kFloat ? bytes : Copies(problem).kernel + bytes;
}

void FastConvolution::run(const ConvProblem& problem, const void* src, const void* wei, const void* bias, void* dst,
                          void* scratch, const Parallel& parallel) const {
  if (dtype_ == DataType::kFloat) {
    kernels::run(*plan_, problem, static_cast<const float*>(src), static_cast<const float*>(wei),
                 static_cast<const float*>(bias), static_cast<float*>(dst), scratch, parallel);
    return;
  }
  const Copies at(problem);
  auto* bytes = static_cast<unsigned char*>(scratch);
  auto* src_copy = reinterpret_cast<float*>(bytes + at.src);
  auto* dst_copy = reinterpret_cast<float*>(bytes + at.dst);
  auto* bias_copy = reinterpret_cast<float*>(bytes + at.bias);
  widen(dtype_, src, src_count(problem), src_copy, parallel);
  if (bias != nullptr) widen(dtype_, bias, problem.oc, bias_copy, parallel);
  kernels::run(*plan_, problem, src_copy, wei_.empty() ? nullptr : wei_.data(), bias != nullptr ? bias_copy : nullptr,
               dst_copy, bytes + at.kernel, parallel);
  narrow(dtype_, dst_copy, dst_count(problem), dst, parallel);
}

}  // namespace ortconv

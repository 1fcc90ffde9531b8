#include "ops/fast.h"

#include <cstdint>
#include <utility>

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

bool is_floating_point(DataType dtype) {
  return dtype == DataType::kFloat || dtype == DataType::kFloat16 || dtype == DataType::kBfloat16 ||
         dtype == DataType::kDouble;
}

}  // namespace

FastConvolution::FastConvolution(kernels::PlanPtr plan) : plan_(std::move(plan)) {}

std::unique_ptr<FastConvolution> FastConvolution::make(DataType dtype, kernels::Op op, const ConvProblem& problem,
                                                       const void* wei, Weights lifetime, const ArchFlags& arch) {
  if (!is_floating_point(dtype) || !is_compact(problem)) return nullptr;
  const bool constant = lifetime == Weights::kConstant;
  // The plan looks at the weights that it packs.
  if (!constant && !kernels::all_finite(op, problem, dtype, wei)) return nullptr;
  kernels::PlanPtr plan = kernels::make_plan(op, problem, dtype, constant ? wei : nullptr, arch);
  if (plan == nullptr) return nullptr;
  return std::unique_ptr<FastConvolution>(new FastConvolution(std::move(plan)));
}

size_t FastConvolution::scratch_bytes(const ConvProblem& problem, int threads) const {
  return kernels::scratch_bytes(*plan_, problem, threads);
}

void FastConvolution::run(const ConvProblem& problem, const void* src, const void* wei, const void* bias, void* dst,
                          void* scratch, const Parallel& parallel) const {
  kernels::run(*plan_, problem, src, wei, bias, dst, scratch, parallel);
}

}  // namespace ortconv

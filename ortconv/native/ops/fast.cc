#include "ops/fast.h"

#include <cstdint>
#include <utility>

#include "kernels/conv/plan.h"
#include "kernels/im2col/im2col_gemm.h"

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

FastConvolution::FastConvolution(DataType dtype, kernels::Op op, Weights lifetime, const ArchFlags& arch)
    : dtype_(dtype), op_(op), lifetime_(lifetime), arch_(arch) {}

std::unique_ptr<FastConvolution> FastConvolution::make(DataType dtype, kernels::Op op, const ConvProblem& problem,
                                                       const void* wei, Weights lifetime, const ArchFlags& arch) {
  if (!is_floating_point(dtype)) return nullptr;
  const bool constant = lifetime == Weights::kConstant;
  std::unique_ptr<FastConvolution> fast(new FastConvolution(dtype, op, lifetime, arch));
  if (!kernels::all_finite(op, problem, dtype, wei)) return fast;
  const bool compact = is_compact(problem);
  if (constant && compact) {
    fast->ways_ = kernels::winograd::make_ways(op, problem, dtype, arch);
    if (fast->ways_ != nullptr && !kernels::winograd::takes_weights(op, problem, dtype, wei, arch)) {
      fast->ways_.reset();
    }
    fast->may_pack_taps_ = kernels::may_pack_taps(op, problem, dtype, wei, arch);
  }
  fast->may_be_depth_to_space_ = compact && fast->ways_ == nullptr && op == kernels::Op::kConvTranspose &&
                                 kernels::depth_to_space::takes(problem, dtype, arch);
  if (fast->packs_later()) return fast;
  Direct& direct = fast->direct_[static_cast<int>(kernels::Packing::kPhases)];
  direct.plan = kernels::make_plan(op, problem, dtype, constant ? wei : nullptr, arch);
  return fast;
}

const kernels::Plan* FastConvolution::direct(const ConvProblem& problem, const void* wei) const {
  const bool taps = may_pack_taps_ && kernels::prefers_taps(problem, dtype_, arch_);
  const kernels::Packing packing = taps ? kernels::Packing::kTaps : kernels::Packing::kPhases;
  Direct& direct = direct_[static_cast<int>(packing)];
  if (packs_later()) {
    std::call_once(direct.packed, [&] {
      const void* constant = lifetime_ == Weights::kConstant ? wei : nullptr;
      direct.plan = kernels::make_plan(op_, problem, dtype_, constant, arch_, packing);
    });
  }
  return direct.plan != nullptr && kernels::suits(*direct.plan, problem) ? direct.plan.get() : nullptr;
}

const kernels::depth_to_space::Plan* FastConvolution::depth_to_space(const ConvProblem& problem,
                                                                     const void* wei) const {
  if (!may_be_depth_to_space_ || !kernels::depth_to_space::suits(problem)) return nullptr;
  std::call_once(depth_to_space_.packed, [&] {
    depth_to_space_.plan =
        kernels::depth_to_space::make_plan(problem, dtype_, lifetime_ == Weights::kConstant ? wei : nullptr, arch_);
  });
  return depth_to_space_.plan.get();
}

const kernels::winograd::Plan* FastConvolution::filtered(const ConvProblem& problem, const void* wei) const {
  kernels::winograd::Windows windows;
  if (ways_ == nullptr || !kernels::winograd::choose(*ways_, problem, &windows)) return nullptr;
  auto& filtered = filtered_[static_cast<int>(windows)];
  std::call_once(filtered.packed,
                 [&] { filtered.plan = kernels::winograd::make_plan(op_, problem, windows, dtype_, wei, arch_); });
  return filtered.plan.get();
}

size_t FastConvolution::scratch_bytes(const ConvProblem& problem, const void* wei, int threads) const {
  if (const auto* plan = filtered(problem, wei)) return kernels::winograd::scratch_bytes(*plan, problem, threads);
  if (const auto* plan = depth_to_space(problem, wei))
    return kernels::depth_to_space::scratch_bytes(*plan, problem, threads);
  return direct_scratch_bytes(problem, wei, threads);
}

void FastConvolution::run(const ConvProblem& problem, const void* src, const void* wei, const void* bias, void* dst,
                          void* scratch, const Parallel& parallel) const {
  if (const auto* plan = depth_to_space(problem, wei)) {
    kernels::depth_to_space::run(*plan, problem, src, wei, bias, dst, scratch, parallel);
    return;
  }
  const auto* plan = filtered(problem, wei);
  if (plan == nullptr) {
    run_directly(problem, src, wei, bias, dst, scratch, parallel);
    return;
  }
  if (kernels::winograd::run(*plan, problem, src, bias, dst, scratch, parallel)) return;
  // A src of infinities, NaN or huge numbers: rare enough to have its scratch allocated.
  const kernels::Buffer more(direct_scratch_bytes(problem, wei, parallel.threads));
  run_directly(problem, src, wei, bias, dst, more.as<void>(), parallel);
}

size_t FastConvolution::direct_scratch_bytes(const ConvProblem& problem, const void* wei, int threads) const {
  if (const auto* plan = direct(problem, wei)) return kernels::scratch_bytes(*plan, problem, threads);
  return kernels::im2col::scratch_bytes(op_, problem, dtype_, arch_, threads);
}

void FastConvolution::run_directly(const ConvProblem& problem, const void* src, const void* wei, const void* bias,
                                   void* dst, void* scratch, const Parallel& parallel) const {
  if (const auto* plan = direct(problem, wei)) {
    kernels::run(*plan, problem, src, wei, bias, dst, scratch, parallel);
  } else {
    kernels::im2col::run(op_, problem, dtype_, arch_, src, wei, bias, dst, scratch, parallel);
  }
}

}  // namespace ortconv

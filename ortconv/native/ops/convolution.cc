#include "ops/convolution.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/activation.h"
#include "base/math.h"
#include "base/parallel.h"
#include "ops/epilogue.h"
#include "ops/reference.h"

namespace ortconv {
namespace {

bool is_empty(const int64_t* sizes, int count) { return std::find(sizes, sizes + count, 0) != sizes + count; }

int64_t dst_count(const ConvProblem& p) { return p.mb * p.oc * product_of(p.dst_size, p.ndims); }

bool output_is_empty(const ConvProblem& p) { return p.mb == 0 || p.oc == 0 || is_empty(p.dst_size, p.ndims); }

// No output is reached by any tap: the result is the bias alone.
bool nothing_to_sum(kernels::Op op, const ConvProblem& p) {
  if (p.ic == 0 || is_empty(p.src_size, p.ndims)) return true;
  if (op == kernels::Op::kConv) return false;
  for (int i = 0; i < p.ndims; ++i) {
    const int64_t full = (p.src_size[i] - 1) * p.stride[i] + (p.ker[i] - 1) * p.dilation[i] + 1;
    if (p.pad[i] >= full) return true;
  }
  return false;
}

}  // namespace

Convolution::Convolution(DataType dtype, kernels::Op op, const ConvProblem& problem, const void* wei, Weights lifetime,
                         const ArchFlags& arch)
    : dtype_(dtype), op_(op), lifetime_(lifetime), arch_(arch) {
  if (problem.ic == 0 || problem.oc == 0) return;
  fast_ = FastConvolution::make(dtype, op, problem, wei, lifetime, arch);
  if (fast_ != nullptr || lifetime == Weights::kOneRun) return;
  const size_t doubles = reference::packed_bytes(dtype, problem) / sizeof(double) + 1;
  packed_.reset(new double[doubles]);
  reference::pack_weights(dtype, op, problem, wei, packed_.get(), serial());
}

Convolution::Way Convolution::way(const ConvProblem& problem, const void* wei) const {
  Way as_it_is{fast_.get(), wei, std::nullopt};
  if (fast_ == nullptr || op_ != kernels::Op::kConvTranspose || lifetime_ != Weights::kConstant) return as_it_is;
  std::optional<MergedAxes> merged = merge_unit_axes(problem);
  if (!merged) return as_it_is;
  std::call_once(merged_.made, [&] {
    merged_.crop = merged->crop;
    if (merged->copies) {
      merged_.weights.reset(new char[cropped_bytes(dtype_, problem, merged->crop)]);
      crop_weights(dtype_, problem, merged->crop, wei, merged_.weights.get());
    }
    const void* weights = merged->copies ? merged_.weights.get() : wei;
    merged_.fast = FastConvolution::make(dtype_, op_, merged->problem, weights, lifetime_, arch_);
  });
  if (merged_.fast == nullptr || !(merged_.crop == merged->crop)) return as_it_is;
  return {merged_.fast.get(), merged->copies ? merged_.weights.get() : wei, std::move(merged)};
}

size_t Convolution::scratch_bytes(const ConvProblem& problem, const void* wei, int threads) const {
  if (output_is_empty(problem) || nothing_to_sum(op_, problem)) return 0;
  if (fast_ == nullptr) return packed_ != nullptr ? 0 : reference::packed_bytes(dtype_, problem);
  const Way way = this->way(problem, wei);
  return way.fast->scratch_bytes(way.problem(problem), way.wei, threads);
}

void Convolution::run(const ConvProblem& problem, const void* src, const void* wei, const void* bias,
                      const void* residual, void* dst, void* scratch, const Parallel& parallel) const {
  if (output_is_empty(problem)) return;
  if (residual == nullptr) {
    compute(problem, src, wei, bias, dst, scratch, parallel);
    return;
  }
  // A pass of its own, from end to end: dst is computed in small tiles here and there, and to read the residual tile by
  // tile, as each is written, takes longer, even from the registers.
  ConvProblem plain = problem;
  plain.activation = Activation();
  compute(plain, src, wei, bias, dst, scratch, parallel);
  add_residual(kernels::get_epilogue_kernel(arch_), dtype_, problem.activation, residual, dst, dst_count(problem),
               parallel);
}

void Convolution::compute(const ConvProblem& problem, const void* src, const void* wei, const void* bias, void* dst,
                          void* scratch, const Parallel& parallel) const {
  const bool sums = !nothing_to_sum(op_, problem);
  if (sums && fast_ != nullptr) {
    const Way way = this->way(problem, wei);
    way.fast->run(way.problem(problem), src, way.wei, bias, dst, scratch, parallel);
    return;
  }
  const void* packed = sums ? packed_.get() : nullptr;
  if (sums && packed == nullptr) {
    reference::pack_weights(dtype_, op_, problem, wei, scratch, parallel);
    packed = scratch;
  }
  reference::run(dtype_, op_, problem, src, packed, bias, dst, parallel);
  activate(dtype_, problem.activation, dst, dst_count(problem), parallel);
}

bool is_small(kernels::Op op, const ConvProblem& p) {
  constexpr double kSmall = 32768;  // multiplications and outputs: some microseconds on one core
  // In floating point, since the true number may exceed int64.
  double outputs = static_cast<double>(p.mb) * static_cast<double>(p.oc);
  double multiplications = outputs * static_cast<double>(p.ic / p.g);
  for (int i = 0; i < p.ndims; ++i) {
    outputs *= static_cast<double>(p.dst_size[i]);
    const int64_t positions = op == kernels::Op::kConvTranspose ? p.src_size[i] : p.dst_size[i];
    multiplications *= static_cast<double>(positions) * static_cast<double>(p.ker[i]);
  }
  return multiplications + outputs < kSmall;
}

}  // namespace ortconv

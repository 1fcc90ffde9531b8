#include "ops/convolution.h"

#include <algorithm>

#include "ops/reference.h"

namespace ortconv {
namespace {

bool is_empty(const int64_t* sizes, int count) { return std::find(sizes, sizes + count, 0) != sizes + count; }

bool output_is_empty(const ConvProblem& p) { return p.mb == 0 || p.oc == 0 || is_empty(p.dst_size, p.ndims); }

// No tap reads anything: the result is the bias alone.
bool nothing_to_sum(const ConvProblem& p) { return p.ic == 0 || is_empty(p.src_size, p.ndims); }

}  // namespace

Convolution::Convolution(DataType dtype, kernels::Op op, const ConvProblem& weights, const void* wei,
                         const ArchFlags& arch)
    : dtype_(dtype), op_(op) {
  if (weights.ic == 0 || weights.oc == 0) return;
  if (dtype == DataType::kFloat) plan_ = kernels::make_plan(op, weights, static_cast<const float*>(wei), arch);
  if (plan_ != nullptr || wei == nullptr) return;
  const size_t doubles = reference::packed_bytes(dtype, weights) / sizeof(double) + 1;
  packed_.reset(new double[doubles]);
  reference::pack_weights(dtype, op, weights, wei, packed_.get(), serial());
}

size_t Convolution::scratch_bytes(const ConvProblem& problem, int threads) const {
  if (output_is_empty(problem) || nothing_to_sum(problem)) return 0;
  if (plan_ != nullptr) return kernels::scratch_bytes(*plan_, problem, threads);
  return packed_ != nullptr ? 0 : reference::packed_bytes(dtype_, problem);
}

void Convolution::run(const ConvProblem& problem, const void* src, const void* wei, const void* bias, void* dst,
                      void* scratch, const Parallel& parallel) const {
  if (output_is_empty(problem)) return;
  if (nothing_to_sum(problem)) {
    reference::run(dtype_, op_, problem, src, nullptr, bias, dst, parallel);
  } else if (plan_ != nullptr) {
    kernels::run(*plan_, problem, static_cast<const float*>(src), static_cast<const float*>(wei),
                 static_cast<const float*>(bias), static_cast<float*>(dst), scratch, parallel);
  } else {
    const void* packed = packed_.get();
    if (packed == nullptr) {
      reference::pack_weights(dtype_, op_, problem, wei, scratch, parallel);
      packed = scratch;
    }
    reference::run(dtype_, op_, problem, src, packed, bias, dst, parallel);
  }
}

Parallel serial() {
  Parallel parallel;
  parallel.run = [](void*, int64_t n, void (*fn)(void*, int64_t), void* arg) {
    for (int64_t i = 0; i < n; ++i) fn(arg, i);
  };
  return parallel;
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

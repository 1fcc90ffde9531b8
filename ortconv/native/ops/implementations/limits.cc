#include "ops/implementations/limits.h"

#include "ops/implementations/sizes.h"

namespace ortconv::implementations {

bool counts_fit(kernels::Op op, const ConvProblem& p) {
  constexpr double kMostCells = 1e12;
  double cells = static_cast<double>(p.mb) * static_cast<double>(p.ic);
  for (int a = 0; a < p.ndims; ++a) {
    const double kernel = static_cast<double>(p.ker[a] + 1) * static_cast<double>(p.dilation[a]);
    const auto stride = static_cast<double>(p.stride[a]), size = static_cast<double>(p.dst_size[a]);
    cells *= op == kernels::Op::kConv ? size * stride + kernel : size / stride + kernel;
  }
  return cells <= kMostCells;
}

bool is_in_proportion(size_t scratch_bytes, const ConvProblem& p, size_t cell_bytes) {
  constexpr double kFreeBytes = 8 << 20;
  const double data = (src_count(p) + dst_count(p) + weight_count(p)) * static_cast<double>(cell_bytes);
  return static_cast<double>(scratch_bytes) <= kFreeBytes + data;
}

}  // namespace ortconv::implementations

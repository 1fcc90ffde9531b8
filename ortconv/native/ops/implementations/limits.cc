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

bool every_output_is_reached(kernels::Op op, const ConvProblem& p) {
  for (int a = 0; a < p.ndims; ++a) {
    const int64_t reach = (p.ker[a] - 1) * p.dilation[a], last = p.src_size[a] - 1;
    // In between there are none where the taps of one position, or the positions of one tap, follow each other closely.
    if (op == kernels::Op::kConv) {
      if (p.pad[a] > reach || (p.dst_size[a] - 1) * p.stride[a] - p.pad[a] > last) return false;
      if (p.dilation[a] > p.src_size[a]) return false;
    } else {
      if (p.pad[a] + p.dst_size[a] - 1 > last * p.stride[a] + reach) return false;
      const bool by_taps = p.dilation[a] == 1 && p.stride[a] <= p.ker[a];
      const bool by_positions = p.stride[a] == 1 && p.dilation[a] <= p.src_size[a];
      if (!by_taps && !by_positions) return false;
    }
  }
  return true;
}

bool is_in_proportion(size_t scratch_bytes, const ConvProblem& p, size_t cell_bytes) {
  constexpr double kFreeBytes = 8 << 20;
  const double data = (src_count(p) + dst_count(p) + weight_count(p)) * static_cast<double>(cell_bytes);
  return static_cast<double>(scratch_bytes) <= kFreeBytes + data;
}

}  // namespace ortconv::implementations

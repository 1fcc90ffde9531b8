#include "kernels/integer_conv/result.h"

#include <algorithm>

#include "base/math.h"

namespace ortconv::kernels {

IntegerResultArgs integer_result_args(const ConvProblem& problem, const IntegerResultOperands& o, int64_t m) {
  IntegerResultArgs args{};
  args.scale = o.x_scale * o.w_scales[o.w_scale_count == 1 ? 0 : m];
  args.bias = o.bias == nullptr ? 0 : o.bias[m];
  args.activation = problem.activation;
  args.is_affine = o.factors != nullptr;
  if (args.is_affine) args.factor = o.factors[m], args.addend = o.addends[m];
  args.residual_scale = o.residual_scale, args.residual_zero = o.residual_zero;
  args.y_scale = o.y_scale, args.y_zero = o.y_zero;
  return args;
}

std::vector<int32_t> find_equal_biases(const float* biases, int64_t channels, int64_t positions) {
  std::vector<int32_t> ends(positions);
  for (int64_t i = positions; i-- > 0;) {
    bool is_equal = i + 1 < positions;
    for (int64_t m = 0; m < channels && is_equal; ++m) {
      is_equal = biases[m * positions + i] == biases[m * positions + i + 1];
    }
    ends[i] = is_equal ? ends[i + 1] : static_cast<int32_t>(i + 1);
  }
  return ends;
}

int64_t computed_rows(const IntegerConvKernel& kernel, int64_t outputs) {
  const int64_t rows = kernel.rows, rest = outputs % rows, whole = outputs - rest;
  if (rest == 0) return whole;
  const int64_t parts = rest > rows / 2 ? 4 : rest > rows / 4 ? 2 : 1;
  return whole + std::max<int64_t>(rows / 4 * parts, 1);
}

IntegerWork integer_conv_work(const ConvProblem& p, const IntegerConvLayout& layout, const IntegerConvKernel& kernel,
                              double excess_share) {
  const auto images = static_cast<double>(p.mb), vectors = static_cast<double>(layout.positions.size());
  const double planes = static_cast<double>(layout.planes) * static_cast<double>(layout.plane);
  IntegerWork work{};
  if (is_integer_depthwise(p)) {
    work.dots = images * vectors * static_cast<double>(integer_windows(p, kernel).size()) * static_cast<double>(p.oc);
    work.arranged = images * planes * static_cast<double>(p.g);
  } else {
    const int64_t blocks = ceil_div(p.ic / p.g, kernel.depth), rows = p.g * computed_rows(kernel, p.oc / p.g) * blocks;
    work.dots = passes_of(excess_share) * images * vectors * static_cast<double>(layout.taps.size()) *
                static_cast<double>(rows);
    work.arranged = images * planes * static_cast<double>(p.g * blocks);
  }
  work.rows = images * static_cast<double>(p.oc) * static_cast<double>(product_of(p.dst_size, p.ndims - 1));
  return work;
}

}  // namespace ortconv::kernels

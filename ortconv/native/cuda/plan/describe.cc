#include "cuda/plan/describe.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

namespace ortconv::cuda {

static_assert(kMaxAxes == kMaxSpatial);

int element_of(DataType dtype) { return dtype == DataType::kFloat ? 0 : dtype == DataType::kFloat16 ? 1 : 2; }

ProgramKey program_for(const char* source, const Elements& elements, std::vector<std::string> options) {
  if (elements.are_integers()) {
    options.push_back(option("ELEMENT", 3));
    options.push_back(option("X_SIGNED", elements.x == DataType::kInt8));
    options.push_back(option("W_SIGNED", elements.w == DataType::kInt8));
    options.push_back(option("QUANTIZED", elements.are_quantized()));
    if (elements.are_quantized()) options.push_back(option("Y_SIGNED", elements.y == DataType::kInt8));
  } else {
    options.push_back(option("ELEMENT", element_of(elements.y)));
  }
  std::sort(options.begin(), options.end());
  return {source, options};
}

int64_t count_outputs(const ConvProblem& p) {
  int64_t count = p.mb * p.oc;
  for (int a = 0; a < p.ndims; ++a) count *= p.dst_size[a];
  return count;
}

Problem describe(const Elements& elements, kernels::Op op, const ConvProblem& p) {
  const bool transposed = op == kernels::Op::kConvTranspose;
  Problem result{};
  result.mb = p.mb;
  result.groups = p.g;
  result.icg = p.ic / p.g;
  result.ocg = p.oc / p.g;
  result.src_n = p.src_n;
  result.src_c = p.src_c;
  result.wei_ic = transposed ? p.wei_0 : p.wei_1;
  result.wei_oc = transposed ? p.wei_1 : p.wei_0;
  result.wei_g = p.wei_0 * (transposed ? result.icg : result.ocg);
  result.dst_n = p.dst_n;
  result.dst_c = p.dst_c;
  for (int a = 0; a < p.ndims; ++a) {
    const int64_t period = transposed ? p.stride[a] / std::gcd(p.stride[a], p.dilation[a]) : 1;
    result.axis[a] = {p.src_size[a], p.dst_size[a], p.ker[a],   p.stride[a], p.dilation[a],
                      p.pad[a],      p.src_x[a],    p.wei_x[a], p.dst_x[a],  period};
  }
  result.ndims = p.ndims;
  result.transposed = transposed;
  result.channels_last = p.dst_c == 1 && p.dst_x[p.ndims - 1] != 1;
  result.slope = p.activation.slope;
  result.minimum = p.activation.minimum;
  result.maximum = p.activation.maximum;
  result.alpha = p.activation.hard_sigmoid.alpha;
  result.beta = p.activation.hard_sigmoid.beta;
  result.quantization.w_scale_step = elements.channels_have_scales;
  result.quantization.w_zero_step = elements.channels_have_zeros;
  return result;
}

void add_problem_pointers(size_t at, const Elements& elements, const Terms& terms, Launch* launch) {
  const auto add = [launch](size_t offset, Buffer buffer) { launch->pointers.push_back({offset, buffer}); };
  add(at + offsetof(Problem, src), Buffer::kX);
  add(at + offsetof(Problem, wei), Buffer::kW);
  add(at + offsetof(Problem, dst), Buffer::kY);
  if (terms.bias) add(at + offsetof(Problem, bias), Buffer::kB);
  if (!elements.are_integers()) return;
  const size_t quantization = at + offsetof(Problem, quantization);
  add(quantization + offsetof(Quantization, x_scale), Buffer::kXScale);
  add(quantization + offsetof(Quantization, w_scale), Buffer::kScales);
  add(quantization + offsetof(Quantization, x_zero), Buffer::kXZero);
  add(quantization + offsetof(Quantization, w_zero), Buffer::kZeros);
  if (!elements.are_quantized()) return;
  const size_t result = at + offsetof(Problem, result);
  add(result + offsetof(QuantizedResult, y_scale), Buffer::kYScale);
  add(result + offsetof(QuantizedResult, y_zero), Buffer::kYZero);
  if (terms.element_bias) add(result + offsetof(QuantizedResult, biases), Buffer::kB);
  if (terms.residual) {
    add(result + offsetof(QuantizedResult, residual), Buffer::kResidual);
    add(result + offsetof(QuantizedResult, residual_scale), Buffer::kResidualScale);
    add(result + offsetof(QuantizedResult, residual_zero), Buffer::kResidualZero);
  }
  if (terms.affine) {
    add(result + offsetof(QuantizedResult, factor), Buffer::kFactor);
    add(result + offsetof(QuantizedResult, addend), Buffer::kAddend);
  }
}

std::string option(const char* name, int64_t value) { return std::string("-D") + name + '=' + std::to_string(value); }

Divisor divisor(int64_t by) {
  Divisor result{static_cast<unsigned>(by), 1, 0};
  while (int64_t{1} << result.shift < by) ++result.shift;
  result.factor = static_cast<unsigned>((((int64_t{1} << result.shift) - by) << 32) / by + 1);
  return result;
}

}  // namespace ortconv::cuda

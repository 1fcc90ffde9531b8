#include <algorithm>
#include <vector>

#include "base/math.h"
#include "kernels/integer_conv/transposed.h"

namespace ortconv::kernels {
namespace {

constexpr int64_t kColumns = 256;  // of a row that are summed before they are stored

class Direct {
 public:
  Direct(const ConvProblem& problem, const IntegerConvFilter& filter, const IntegerResultOperands& operands)
      : p_(problem),
        filter_(filter),
        operands_(operands),
        inputs_(problem.ic / problem.g),
        outputs_(problem.oc / problem.g),
        source_(product_of(problem.src_size, problem.ndims)),
        taps_(inputs_ == 0 || outputs_ == 0 ? 0 : product_of(problem.ker, problem.ndims)) {}

  // The sum for one output, by the definition.
  int32_t sum_at(int64_t image, int64_t m, const int64_t* at) const {
    const int64_t group = m / outputs_, zero = filter_.zero(m);
    uint32_t sum = 0;
    for (int64_t t = 0; t < taps_; ++t) {
      int64_t rest = t, from = 0, scale = 1;
      bool inside = true;
      for (int i = p_.ndims; i-- > 0; rest /= p_.ker[i], scale *= p_.src_size[i]) {
        const int64_t scaled = at[i] + p_.pad[i] - rest % p_.ker[i] * p_.dilation[i];
        const int64_t position = floor_div(scaled, p_.stride[i]);
        inside = inside && position * p_.stride[i] == scaled && position >= 0 && position < p_.src_size[i];
        from += position * scale;
      }
      if (!inside) continue;
      for (int64_t c = group * inputs_; c < (group + 1) * inputs_; ++c) {
        const int32_t x = operands_.x[(image * p_.ic + c) * source_ + from] - operands_.x_zero;
        sum += static_cast<uint32_t>(
            x * (filter_.w[(c * outputs_ + m % outputs_) * taps_ + t] - static_cast<int32_t>(zero)));
      }
    }
    return static_cast<int32_t>(sum);
  }

 private:
  const ConvProblem& p_;
  const IntegerConvFilter& filter_;
  const IntegerResultOperands& operands_;
  const int64_t inputs_, outputs_, source_, taps_;
};

}  // namespace

void integer_transposed_direct(const ConvProblem& p, const IntegerConvFilter& filter, const IntegerResultKernel& result,
                               const IntegerResultOperands& operands, const Parallel& parallel) {
  const Direct direct(p, filter, operands);
  const int last = p.ndims - 1;
  const int64_t width = p.dst_size[last], rows = product_of(p.dst_size, last);
  const int64_t bytes = operands.type == ResultType::kFloat ? sizeof(float) : 1;
  for_each(parallel, p.mb * p.oc * rows, [&](int64_t item) {
    const int64_t m = item / rows % p.oc;
    int64_t at[kMaxSpatial] = {};
    for (int64_t i = last, rest = item % rows; i-- > 0; rest /= p.dst_size[i]) at[i] = rest % p.dst_size[i];
    IntegerResultArgs args = integer_result_args(p, operands, m);
    float sums[kColumns];
    const float* const row = sums;
    args.sums = &row, args.phases = 1;
    for (int64_t begin = 0; begin < width; begin += kColumns) {
      args.count = std::min(kColumns, width - begin);
      for (int64_t i = 0; i < args.count; ++i) {
        at[last] = begin + i;
        sums[i] = static_cast<float>(direct.sum_at(item / rows / p.oc, m, at));
      }
      args.y = static_cast<unsigned char*>(operands.y) + (item * width + begin) * bytes;
      if (operands.residual != nullptr) {
        args.residual = static_cast<const unsigned char*>(operands.residual) + item * width + begin;
      }
      result(operands.type, args);
    }
  });
}

}  // namespace ortconv::kernels

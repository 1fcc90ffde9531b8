#include <algorithm>
#include <vector>

#include "base/math.h"
#include "base/parallel.h"
#include "kernels/integer_conv/integer_conv.h"
#include "kernels/integer_conv/result.h"

namespace ortconv::kernels {
namespace {

// The taps of each axis that read the source for one output.
struct Window {
  int64_t first[kMaxSpatial];  // what tap 0 reads
  int64_t begin[kMaxSpatial], end[kMaxSpatial];

  // False where no tap reads the source.
  bool find(const ConvProblem& p, const int64_t* at) {
    for (int i = 0; i < p.ndims; ++i) {
      first[i] = at[i] * p.stride[i] - p.pad[i];
      begin[i] = first[i] >= 0 ? 0 : ceil_div(-first[i], p.dilation[i]);
      end[i] = first[i] >= p.src_size[i] ? 0 : std::min(p.ker[i], ceil_div(p.src_size[i] - first[i], p.dilation[i]));
      if (begin[i] >= end[i]) return false;
    }
    return true;
  }

  bool next(int64_t* tap, int ndims) const {
    for (int i = ndims; i-- > 0;) {
      if (++tap[i] < end[i]) return true;
      tap[i] = begin[i];
    }
    return false;
  }
};

class Direct {
 public:
  Direct(const ConvProblem& problem, const IntegerConvFilter& filter, Bytes x, int32_t x_zero)
      : problem_(problem),
        x_(x),
        x_zero_(x_zero),
        filter_(filter),
        inputs_(problem.ic / problem.g),
        outputs_(problem.oc / problem.g),
        source_(inputs_ == 0 ? 0 : product_of(problem.src_size, problem.ndims)),
        taps_(inputs_ == 0 ? 0 : product_of(problem.ker, problem.ndims)),
        result_(product_of(problem.dst_size, problem.ndims)) {}

  // Calls fn(column, sum) for one row along the last axis, of one channel.
  template <class Fn>
  void row(int64_t item, Fn fn) const {
    const ConvProblem& p = problem_;
    const int last = p.ndims - 1;
    const int64_t rows = this->rows() / p.mb / p.oc;
    int64_t at[kMaxSpatial] = {};
    for (int64_t i = last, rest = item % rows; i-- > 0; rest /= p.dst_size[i]) at[i] = rest % p.dst_size[i];
    for (; at[last] < width(); ++at[last]) {
      fn(at[last], static_cast<int32_t>(sum_at(item / rows / p.oc, channel(item), at)));
    }
  }

  int64_t width() const { return problem_.dst_size[problem_.ndims - 1]; }
  int64_t channel(int64_t item) const { return item * width() / result_ % problem_.oc; }
  int64_t rows() const { return problem_.mb * problem_.oc * (result_ / width()); }

 private:
  uint32_t sum_at(int64_t image, int64_t m, const int64_t* at) const {
    const ConvProblem& p = problem_;
    Window window;
    if (inputs_ == 0 || !window.find(p, at)) return 0;
    const Bytes& w = filter_.w;
    const int32_t zero = filter_.zero(m);
    const int64_t x_first = (image * p.ic + m / outputs_ * inputs_) * source_, w_first = m * inputs_ * taps_;
    int64_t tap[kMaxSpatial];
    std::copy_n(window.begin, p.ndims, tap);
    uint32_t sum = 0;
    do {
      int64_t from = 0, weight = 0;
      for (int i = 0; i < p.ndims; ++i) {
        from = from * p.src_size[i] + window.first[i] + tap[i] * p.dilation[i];
        weight = weight * p.ker[i] + tap[i];
      }
      for (int64_t c = 0; c < inputs_; ++c) {
        const int32_t product = (x_[x_first + c * source_ + from] - x_zero_) * (w[w_first + c * taps_ + weight] - zero);
        sum += static_cast<uint32_t>(product);
      }
    } while (window.next(tap, p.ndims));
    return sum;
  }

  const ConvProblem& problem_;
  const Bytes x_;
  const int32_t x_zero_;
  const IntegerConvFilter& filter_;
  const int64_t inputs_, outputs_, source_, taps_, result_;
};

}  // namespace

void integer_conv_direct(const ConvProblem& problem, const IntegerConvFilter& filter,
                         const IntegerConvOperands& operands, const Parallel& parallel) {
  const Direct direct(problem, filter, operands.x, operands.x_zero);
  for_each(parallel, direct.rows(), [&](int64_t item) {
    const int64_t m = direct.channel(item);
    const float scale = operands.x_scale * operands.w_scales[operands.w_scale_count == 1 ? 0 : m];
    const float bias = operands.bias == nullptr ? 0 : operands.bias[m];
    float* const y = operands.y + item * direct.width();
    direct.row(item, [&](int64_t column, int32_t sum) { y[column] = static_cast<float>(sum) * scale + bias; });
  });
}

void integer_conv_result_direct(const ConvProblem& problem, const IntegerConvFilter& filter,
                                const IntegerResultKernel& result, const IntegerResultOperands& operands,
                                const Parallel& parallel) {
  const Direct direct(problem, filter, operands.x, operands.x_zero);
  const int64_t bytes = operands.type == ResultType::kFloat ? sizeof(float) : 1;
  const int64_t image = problem.oc * product_of(problem.dst_size, problem.ndims);
  for_each(parallel, direct.rows(), [&](int64_t item) {
    std::vector<float> row(direct.width());
    direct.row(item, [&](int64_t column, int32_t sum) { row[column] = static_cast<float>(sum); });
    const float* const sums = row.data();
    IntegerResultArgs args = integer_result_args(problem, operands, direct.channel(item));
    args.sums = &sums, args.phases = 1, args.count = direct.width();
    args.y = static_cast<unsigned char*>(operands.y) + item * direct.width() * bytes;
    if (operands.biases != nullptr) args.biases = operands.biases + item * direct.width() % image;
    result(operands.type, args);
  });
}

}  // namespace ortconv::kernels

#include <algorithm>

#include "base/math.h"
#include "base/parallel.h"
#include "kernels/integer_conv/integer_conv.h"

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
  Direct(const ConvProblem& problem, const IntegerConvOperands& operands, const IntegerConvFilter& filter)
      : problem_(problem),
        operands_(operands),
        filter_(filter),
        inputs_(problem.ic / problem.g),
        outputs_(problem.oc / problem.g),
        source_(inputs_ == 0 ? 0 : product_of(problem.src_size, problem.ndims)),
        taps_(inputs_ == 0 ? 0 : product_of(problem.ker, problem.ndims)),
        result_(product_of(problem.dst_size, problem.ndims)) {}

  // Computes one row along the last axis, of one channel.
  void row(int64_t item) const {
    const ConvProblem& p = problem_;
    const int last = p.ndims - 1;
    const int64_t width = p.dst_size[last], rows = result_ / width, image = item / rows / p.oc, m = item / rows % p.oc;
    int64_t at[kMaxSpatial] = {};
    for (int64_t i = last, rest = item % rows; i-- > 0; rest /= p.dst_size[i]) at[i] = rest % p.dst_size[i];
    const float scale = operands_.x_scale * operands_.w_scales[operands_.w_scale_count == 1 ? 0 : m];
    const float bias = operands_.bias == nullptr ? 0 : operands_.bias[m];
    float* const y = operands_.y + item * width;
    for (; at[last] < width; ++at[last]) {
      const auto sum = static_cast<int32_t>(sum_at(image, m, at));
      y[at[last]] = static_cast<float>(sum) * scale + bias;
    }
  }

  int64_t rows() const { return problem_.mb * problem_.oc * (result_ / problem_.dst_size[problem_.ndims - 1]); }

 private:
  uint32_t sum_at(int64_t image, int64_t m, const int64_t* at) const {
    const ConvProblem& p = problem_;
    Window window;
    if (inputs_ == 0 || !window.find(p, at)) return 0;
    const Bytes &x = operands_.x, &w = filter_.w;
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
        const int32_t product =
            (x[x_first + c * source_ + from] - operands_.x_zero) * (w[w_first + c * taps_ + weight] - zero);
        sum += static_cast<uint32_t>(product);
      }
    } while (window.next(tap, p.ndims));
    return sum;
  }

  const ConvProblem& problem_;
  const IntegerConvOperands& operands_;
  const IntegerConvFilter& filter_;
  const int64_t inputs_, outputs_, source_, taps_, result_;
};

}  // namespace

void integer_conv_direct(const ConvProblem& problem, const IntegerConvFilter& filter,
                         const IntegerConvOperands& operands, const Parallel& parallel) {
  const Direct direct(problem, operands, filter);
  for_each(parallel, direct.rows(), [&](int64_t item) { direct.row(item); });
}

}  // namespace ortconv::kernels

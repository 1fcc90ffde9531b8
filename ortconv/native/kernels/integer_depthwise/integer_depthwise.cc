#include "kernels/integer_depthwise/integer_depthwise.h"

#include <algorithm>

#include "base/math.h"
#include "base/ranges.h"

namespace ortconv::kernels {
namespace {

constexpr int64_t kChunk = 1 << 13;      // numbers of the source that are widened at a time, so that they stay in L1
constexpr int64_t kMost = 1 << 17;       // numbers that some rows of outputs may need at once
constexpr int64_t kLeastWork = 1 << 13;  // fewest products of lanes in a range of channels

struct Axis {
  int64_t src = 1, dst = 1, ker = 1, stride = 1, dilation = 1, pad = 0;

  // Positions of the padded source that so many outputs need.
  int64_t needed(int64_t outputs) const { return (outputs - 1) * stride + (ker - 1) * dilation + 1; }
};

// The axis of rows, and that of columns.
Axis axis_of(const ConvProblem& p, int i) {
  return {p.src_size[i], p.dst_size[i], p.ker[i], p.stride[i], p.dilation[i], p.pad[i]};
}
Axis rows_of(const ConvProblem& p) { return p.ndims == 1 ? Axis() : axis_of(p, 0); }
Axis columns_of(const ConvProblem& p) { return axis_of(p, p.ndims - 1); }

// Taps of a row that are multiplied at once: neighbours.
int64_t joined_taps(const ConvProblem& p) { return columns_of(p).dilation == 1 ? 2 : 1; }

// Rows of outputs that are computed together.
int64_t chunk_rows(const ConvProblem& p) {
  const Axis rows = rows_of(p);
  const int64_t fitting = kChunk / columns_of(p).needed(columns_of(p).dst), more = fitting - rows.needed(1);
  return std::clamp<int64_t>(more / rows.stride + 1, 1, rows.dst);
}

int64_t chunk_numbers(const ConvProblem& p) {
  const int64_t numbers = rows_of(p).needed(chunk_rows(p)) * columns_of(p).needed(columns_of(p).dst);
  return align_up(numbers + IntegerDepthwiseRows::kReadBeyond, 32);
}

// Channels that are widened before they are computed: numbers are read some time after they were written.
int64_t chunk_channels(const ConvProblem& p) {
  constexpr int64_t kMostChannels = 16;
  return std::clamp<int64_t>(kChunk / chunk_numbers(p), 1, std::min(p.g, kMostChannels));
}

// Those of an image.
int64_t channel_chunks(const ConvProblem& p) { return ceil_div(p.g, chunk_channels(p)); }

int64_t workers(const ConvProblem& p, int threads) { return std::min(int64_t{threads}, p.mb * channel_chunks(p)); }

}  // namespace

#define INTEGER_DEPTHWISE_KERNEL(flag, name) extern const IntegerDepthwiseKernel k_##name;
#include "kernels/integer_depthwise/kernels.inc"
#undef INTEGER_DEPTHWISE_KERNEL

const IntegerDepthwiseKernel* get_integer_depthwise_kernel([[maybe_unused]] const ArchFlags& arch) {
#define INTEGER_DEPTHWISE_KERNEL(flag, name) \
  if (flag) return &k_##name;
#include "kernels/integer_depthwise/kernels.inc"
#undef INTEGER_DEPTHWISE_KERNEL
  return nullptr;
}

bool IntegerDepthwiseWeights::takes(const ConvProblem& p) {
  return p.ndims <= 2 && p.oc > 0 && is_integer_depthwise(p) && p.stride[p.ndims - 1] <= 2;
}

int64_t IntegerDepthwiseWeights::window_count(const ConvProblem& p) {
  return rows_of(p).ker * ceil_div(columns_of(p).ker, joined_taps(p));
}

std::optional<IntegerDepthwiseWeights> IntegerDepthwiseWeights::make(const ConvProblem& problem,
                                                                     const IntegerConvFilter& filter) {
  if (!takes(problem)) return std::nullopt;
  IntegerDepthwiseWeights weights;
  const int64_t height = rows_of(problem).ker, width = columns_of(problem).ker, joined = joined_taps(problem);
  for (int64_t row = 0; row < height; ++row) {
    for (int64_t column = 0; column < width; column += joined) weights.windows_.push_back({row, column});
  }
  for (int64_t m = 0; m < problem.oc; ++m) {
    const auto number = [&](int64_t row, int64_t column) {
      return filter.w[(m * height + row) * width + column] - filter.zero(m);
    };
    uint32_t sum = 0;
    for (const Window& window : weights.windows_) {
      const auto first = static_cast<uint32_t>(number(window.row, window.column));
      const bool is_pair = joined == 2 && window.column + 1 < width;
      const auto second = static_cast<uint32_t>(is_pair ? number(window.row, window.column + 1) : 0);
      weights.weights_.push_back((first & 0xffff) | second << 16);
      sum += first + second;
    }
    weights.sums_.push_back(sum);
  }
  return weights;
}

bool IntegerDepthwiseWeights::supports(const ConvProblem& p) const {
  const Axis rows = rows_of(p), columns = columns_of(p);
  if (p.ic == 0 || rows.src == 0 || columns.src == 0) return false;
  const auto needed = [](const Axis& axis, int64_t outputs) {
    return (static_cast<double>(outputs) - 1) * static_cast<double>(axis.stride) +
           (static_cast<double>(axis.ker) - 1) * static_cast<double>(axis.dilation) + 1;
  };
  return needed(rows, 1) * needed(columns, columns.dst) <= kMost;
}

class IntegerDepthwiseDriver {
 public:
  IntegerDepthwiseDriver(const ConvProblem& problem, const IntegerDepthwiseWeights& weights,
                         const IntegerDepthwiseKernel& kernel, const IntegerResultOperands& operands)
      : p_(problem),
        weights_(weights),
        kernel_(kernel),
        operands_(operands),
        rows_(rows_of(problem)),
        columns_(columns_of(problem)),
        pitch_(columns_.needed(columns_.dst)),
        chunk_(chunk_rows(problem)),
        flip_(operands.x.is_signed ? 0x80 : 0),
        zero_(operands.x_zero + flip_) {
    for (const IntegerDepthwiseWeights::Window& window : weights.windows_) {
      windows_.push_back(window.row * rows_.dilation * pitch_ + window.column * columns_.dilation);
    }
  }

  void run(void* scratch, const Parallel& parallel) const {
    const int64_t multiplier = p_.oc / p_.g, together = chunk_channels(p_), numbers = chunk_numbers(p_);
    const int64_t chunks = channel_chunks(p_), threads = workers(p_, parallel.threads);
    const int64_t work = rows_.dst * columns_.dst * weights_.windows() * multiplier * together;
    Ranges ranges(p_.mb * chunks, 1, ceil_div(kLeastWork, std::max<int64_t>(work, 1)), threads);
    for_each(parallel, threads, [&](int64_t worker) {
      auto* const memory = static_cast<int16_t*>(scratch) + worker * together * numbers;
      ranges.for_each_item([&](int64_t item) {
        const int64_t begin = item / chunks * p_.g + item % chunks * together;
        const int64_t end = std::min(begin + together, (item / chunks + 1) * p_.g);
        for (int64_t first = 0; first < rows_.dst; first += chunk_) {
          const int64_t count = std::min(chunk_, rows_.dst - first);
          for (int64_t c = begin; c < end; ++c) {
            const uint8_t* const x = operands_.x.data + c * rows_.src * columns_.src;
            widen(x, first * rows_.stride - rows_.pad, rows_.needed(count), memory + (c - begin) * numbers);
          }
          for (int64_t c = begin; c < end; ++c) {
            for (int64_t i = 0; i < multiplier; ++i) {
              compute(item / chunks, c % p_.g * multiplier + i, first, count, memory + (c - begin) * numbers);
            }
          }
        }
      });
    });
  }

 private:
  // Widens rows of the padded source.
  void widen(const uint8_t* x, int64_t first, int64_t count, int16_t* out) const {
    const auto zero = static_cast<int16_t>(zero_);
    const int64_t begin = std::clamp<int64_t>(-first, 0, count);
    const int64_t end = std::clamp(rows_.src - first, begin, count);
    const int64_t before = std::min(columns_.pad, pitch_);
    const int64_t behind = std::clamp(columns_.src + columns_.pad, before, pitch_);
    std::fill_n(out, begin * pitch_, zero);
    kernel_.widen({x + (first + begin) * columns_.src, columns_.src, end - begin, behind - before, before, flip_, zero,
                   out + begin * pitch_, pitch_});
    std::fill(out + end * pitch_, out + count * pitch_, zero);
  }

  // Rows of outputs of channel m of an image.
  void compute(int64_t image, int64_t m, int64_t first, int64_t count, const int16_t* src) const {
    const int64_t at = first * columns_.dst;
    IntegerDepthwiseRows rows{};
    rows.src = src;
    rows.src_stride = rows_.stride * pitch_;
    rows.step = static_cast<int>(columns_.stride);
    rows.windows = windows_.data();
    rows.weights = weights_.weights_.data() + m * weights_.windows();
    rows.window_count = weights_.windows();
    // Sums of (x - zero) * w are those of x * w, less zero times the sum of w.
    rows.correction = static_cast<int32_t>(-static_cast<uint32_t>(zero_) * weights_.sums_[m]);
    rows.rows = count, rows.width = columns_.dst;
    rows.result = integer_result_args(p_, operands_, m);
    rows.type = operands_.type;
    const int64_t bytes = operands_.type == ResultType::kFloat ? sizeof(float) : 1, outputs = rows_.dst * columns_.dst;
    rows.result.y = static_cast<unsigned char*>(operands_.y) + ((image * p_.oc + m) * outputs + at) * bytes;
    if (operands_.biases != nullptr) rows.result.biases = operands_.biases + m * outputs + at;
    kernel_.rows(rows);
  }

  const ConvProblem& p_;
  const IntegerDepthwiseWeights& weights_;
  const IntegerDepthwiseKernel& kernel_;
  const IntegerResultOperands& operands_;
  const Axis rows_, columns_;
  const int64_t pitch_, chunk_;  // numbers in a row of the widened source; rows of outputs at a time
  const uint8_t flip_;
  const int32_t zero_;  // of the flipped bytes
  std::vector<int64_t> windows_;
};

void integer_depthwise_result(const ConvProblem& problem, const IntegerDepthwiseWeights& weights,
                              const IntegerDepthwiseKernel& kernel, const IntegerResultOperands& operands,
                              void* scratch, const Parallel& parallel) {
  IntegerDepthwiseDriver(problem, weights, kernel, operands).run(scratch, parallel);
}

size_t integer_depthwise_scratch_bytes(const ConvProblem& problem, int threads) {
  const int64_t numbers = workers(problem, threads) * chunk_channels(problem) * chunk_numbers(problem);
  return static_cast<size_t>(numbers) * sizeof(int16_t);
}

}  // namespace ortconv::kernels

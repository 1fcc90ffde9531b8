#include <algorithm>
#include <cstdlib>

#include "base/math.h"
#include "kernels/integer_conv/integer_conv.h"

namespace ortconv::kernels {
namespace {

uint32_t lane_of(const int32_t (&bytes)[4]) {
  uint32_t lane = 0;
  for (int i = 0; i < 4; ++i) lane |= (static_cast<uint32_t>(bytes[i]) & 0xffu) << (8 * i);
  return lane;
}

}  // namespace

IntegerConvWeights::IntegerConvWeights(const IntegerConvKernel& kernel, const ConvProblem& problem,
                                       const IntegerConvFilter& filter)
    : kernel_(kernel),
      depthwise_(is_integer_depthwise(problem)),
      inputs_(problem.ic / problem.g),
      outputs_(problem.oc / problem.g),
      // The sizes of the kernel need not fit where there are no weights.
      taps_(inputs_ == 0 || outputs_ == 0 ? 0 : product_of(problem.ker, problem.ndims)),
      blocks_(ceil_div(inputs_, kernel.depth)),
      panels_(ceil_div(outputs_, kernel.rows)) {
  if (taps_ == 0) return;
  if (depthwise_) windows_ = integer_windows(problem, kernel);
  stride_ = depthwise_ ? static_cast<int64_t>(windows_.size()) : taps_ * blocks_ * kernel.rows;
  const Bytes& w = filter.w;
  if (!kernel.takes_bytes()) {
    lanes_ = packed(problem.oc, [&](int64_t m, int64_t i) { return w[m * inputs_ * taps_ + i] - filter.zero(m); });
    return;
  }
  const int32_t shift = w.is_signed ? 0 : 128;
  sums_.resize(problem.oc);
  for (int64_t m = 0; m < problem.oc; ++m) zeros_.push_back(filter.zero(m) - shift);
  lanes_ = packed(problem.oc, [&](int64_t m, int64_t i) {
    const int32_t number = w[m * inputs_ * taps_ + i] - shift;
    sums_[m] += number;
    return number;
  });
  if (kernel.saturates) take_excess();
  if (std::all_of(zeros_.begin(), zeros_.end(), [](int32_t each) { return each == 0; })) return;
  ones_ = packed(1, [](int64_t, int64_t) { return 1; });
}

IntegerConvWeights IntegerConvWeights::for_fastest(const ArchFlags& arch, const ConvProblem& problem,
                                                   const IntegerConvFilter& filter) {
  const IntegerConvKernel* const saturating = get_saturating_integer_conv_kernel(arch);
  if (saturating != nullptr && !is_integer_depthwise(problem)) {
    IntegerConvWeights weights(*saturating, problem, filter);
    if (weights.excess_share() <= kMostExcess) return weights;
  }
  return {get_integer_conv_kernel(arch), problem, filter};
}

// Packs number(m, i) into lanes; i counts the weights of output channel m.
template <class Number>
std::vector<uint32_t> IntegerConvWeights::packed(int64_t channels, Number number) const {
  const int bits = 32 / kernel_.depth;
  const auto part = [&](int64_t m, int64_t i, int64_t place) {
    return (static_cast<uint32_t>(number(m, i)) & (bits == 8 ? 0xffu : 0xffffu)) << (place * bits);
  };
  if (depthwise_) {
    std::vector<uint32_t> lanes(channels * stride_);
    for (int64_t m = 0; m < channels; ++m) {
      for (size_t w = 0; w < windows_.size(); ++w) {
        for (size_t place = 0; place < windows_[w].size(); ++place) {
          if (windows_[w][place] >= 0) lanes[m * stride_ + w] |= part(m, windows_[w][place], place);
        }
      }
    }
    return lanes;
  }
  const int64_t rows = kernel_.rows, depth = kernel_.depth;
  const int64_t groups = channels / outputs_, rest = channels % outputs_;
  std::vector<uint32_t> lanes((groups * panels_ + ceil_div(rest, rows)) * stride_);
  for (int64_t m = 0; m < channels; ++m) {
    const int64_t group = m / outputs_, row = m % outputs_;
    uint32_t* const panel = lanes.data() + (group * panels_ + row / rows) * stride_ + row % rows;
    for (int64_t c = 0; c < inputs_; ++c) {
      for (int64_t t = 0; t < taps_; ++t) {
        panel[(t * blocks_ + c / depth) * rows] |= part(m, c * taps_ + t, c % depth);
      }
    }
  }
  return lanes;
}

// Takes from each pair of weights of one sign what exceeds 128 together, from the larger one.
void IntegerConvWeights::take_excess() {
  constexpr int kPair = 2, kMost = 128;
  const int64_t rows = kernel_.rows, panels = static_cast<int64_t>(lanes_.size()) / stride_;
  excess_.resize(panels * rows);
  for (int64_t i = 0; i < static_cast<int64_t>(lanes_.size()); ++i) {
    int32_t bytes[4], rest[4] = {};
    for (int b = 0; b < 4; ++b) bytes[b] = static_cast<int8_t>(lanes_[i] >> (8 * b));
    for (int b = 0; b < 4; b += kPair) {
      const int32_t sum = bytes[b] + bytes[b + 1];
      if ((bytes[b] < 0) != (bytes[b + 1] < 0) || std::abs(sum) <= kMost) continue;
      const int larger = std::abs(bytes[b]) >= std::abs(bytes[b + 1]) ? b : b + 1;
      rest[larger] = sum > 0 ? sum - kMost : sum + kMost;
      bytes[larger] -= rest[larger];
    }
    const uint32_t taken = lane_of(rest);
    if (taken == 0) continue;
    lanes_[i] = lane_of(bytes);
    const int64_t unit = i % stride_ / rows;
    excess_[i / stride_ * rows + i % rows].push_back({unit / blocks_, unit % blocks_, taken});
  }
}

double IntegerConvWeights::excess_share() const {
  double count = 0;
  for (const std::vector<IntegerExcess>& each : excess_) count += static_cast<double>(each.size());
  const auto lanes = static_cast<double>(excess_.size()) * static_cast<double>(taps_ * blocks_);
  return lanes == 0 ? 0 : count / lanes;
}

// For bytes: sum((x - a) * (w - b)) = sum(x * w) - a * sum(w) - b * sum(x - a).
IntegerChannel IntegerConvWeights::channel(int64_t index, const IntegerShift& shift) const {
  if (!kernel_.takes_bytes()) return {0, 0, 1, 0};
  const auto unsigned_of = [](int64_t value) { return static_cast<uint32_t>(value); };
  const uint32_t all = unsigned_of(inputs_ * taps_) * unsigned_of(zeros_[index]);
  const uint32_t correction = (all - unsigned_of(sums_[index])) * unsigned_of(shift.zero);
  return {static_cast<int32_t>(correction), zeros_[index], 1, 0};
}

}  // namespace ortconv::kernels

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <limits>
#include <numeric>

#include "base/math.h"
#include "kernels/integer_conv/integer_conv.h"

namespace ortconv::kernels {
namespace {

uint32_t lane_of(const int32_t (&bytes)[4]) {
  uint32_t lane = 0;
  for (int i = 0; i < 4; ++i) lane |= (static_cast<uint32_t>(bytes[i]) & 0xffu) << (8 * i);
  return lane;
}

constexpr int kMostOfPair = 128;  // the largest sum of two weights of one sign whose products do not saturate

struct GroupedWeights {
  int64_t groups, inputs, outputs, taps;  // channels of a group
};

// An order of the input channels of each group in which few pairs exceed. Each channel is paired with the best of
// some that are left. Empty where there are so many weights that this would take long.
template <class Number>
std::vector<int64_t> order_of_pairs(const GroupedWeights& sizes, Number number) {
  constexpr size_t kCandidates = 32;
  constexpr int64_t kMostWeights = 1 << 23;  // of a group
  const int64_t count = sizes.outputs * sizes.taps;
  std::vector<int64_t> order;
  if (sizes.inputs * count > kMostWeights) return order;
  std::vector<int16_t> weights(sizes.inputs * count);  // [inputs][outputs][taps] of a group
  for (int64_t group = 0; group < sizes.groups; ++group) {
    for (int64_t m = 0; m < sizes.outputs; ++m) {
      for (int64_t i = 0; i < sizes.inputs * sizes.taps; ++i) {
        weights[i / sizes.taps * count + m * sizes.taps + i % sizes.taps] =
            static_cast<int16_t>(number(group * sizes.outputs + m, i));
      }
    }
    // Two weights of different signs add up to less than either.
    const auto exceeding = [&](int64_t a, int64_t b) {
      int64_t pairs = 0;
      for (int64_t i = 0; i < count; ++i) {
        const int sum = weights[a * count + i] + weights[b * count + i];
        pairs += static_cast<int64_t>(sum > kMostOfPair) + static_cast<int64_t>(sum < -kMostOfPair);
      }
      return pairs;
    };
    std::vector<int64_t> left(sizes.inputs);
    std::iota(left.begin(), left.end(), 0);
    while (left.size() > 1) {
      const int64_t first = left.back();
      left.pop_back();
      size_t best = 0;
      int64_t least = std::numeric_limits<int64_t>::max();
      for (size_t i = 0; i < std::min(kCandidates, left.size()) && least > 0; ++i) {
        const int64_t pairs = exceeding(first, left[left.size() - 1 - i]);
        if (pairs < least) least = pairs, best = left.size() - 1 - i;
      }
      order.push_back(first), order.push_back(left[best]);
      left.erase(left.begin() + static_cast<std::ptrdiff_t>(best));
    }
    order.insert(order.end(), left.begin(), left.end());
  }
  return order;
}

}  // namespace

IntegerConvWeights::IntegerConvWeights(const IntegerConvKernel& kernel, const ConvProblem& problem,
                                       const IntegerConvFilter& filter, Order order)
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
  const auto number = [&](int64_t m, int64_t i) { return w[m * inputs_ * taps_ + i] - shift; };
  if (kernel.saturates && order == Order::kFree && !depthwise_) {
    order_ = order_of_pairs({problem.g, inputs_, outputs_, taps_}, number);
  }
  lanes_ = packed(problem.oc, [&](int64_t m, int64_t i) {
    sums_[m] += number(m, i);
    return number(m, i);
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
        panel[(t * blocks_ + c / depth) * rows] |= part(m, channel_at(group, c) * taps_ + t, c % depth);
      }
    }
  }
  return lanes;
}

// Takes from each pair of weights of one sign what exceeds kMostOfPair together, from the larger one.
void IntegerConvWeights::take_excess() {
  constexpr int kPair = 2;
  const int64_t rows = kernel_.rows, panels = static_cast<int64_t>(lanes_.size()) / stride_;
  int64_t found = 0;
  std::vector<std::vector<Excess>> of_rows(rows);
  for (int64_t panel = 0; panel < panels; ++panel) {
    for (std::vector<Excess>& each : of_rows) each.clear();
    for (int64_t i = 0; i < stride_; ++i) {
      uint32_t& lane = lanes_[panel * stride_ + i];
      int32_t bytes[4], rest[4] = {};
      for (int b = 0; b < 4; ++b) bytes[b] = static_cast<int8_t>(lane >> (8 * b));
      for (int b = 0; b < 4; b += kPair) {
        const int32_t sum = bytes[b] + bytes[b + 1];
        if ((bytes[b] < 0) != (bytes[b + 1] < 0) || std::abs(sum) <= kMostOfPair) continue;
        const int larger = std::abs(bytes[b]) >= std::abs(bytes[b + 1]) ? b : b + 1;
        rest[larger] = sum > 0 ? sum - kMostOfPair : sum + kMostOfPair;
        bytes[larger] -= rest[larger];
      }
      const uint32_t taken = lane_of(rest);
      if (taken == 0) continue;
      lane = lane_of(bytes);
      const int64_t unit = i / rows;
      of_rows[i % rows].push_back({static_cast<int32_t>(unit / blocks_), static_cast<int32_t>(unit % blocks_), taken});
      ++found;
    }
    excess_begins_.push_back(static_cast<int64_t>(excess_.size()));
    size_t count = 0;
    for (const std::vector<Excess>& each : of_rows) count = std::max(count, each.size());
    for (size_t i = 0; i < count; ++i) {
      for (const std::vector<Excess>& each : of_rows) excess_.push_back(i < each.size() ? each[i] : Excess{0, 0, 0});
    }
  }
  excess_begins_.push_back(static_cast<int64_t>(excess_.size()));
  excess_share_ = static_cast<double>(found) / static_cast<double>(lanes_.size());
}

void IntegerConvWeights::find_excess(int64_t panel, const int64_t* taps, int64_t block_stride,
                                     std::vector<IntegerExcess>* found) const {
  found->clear();
  if (excess_.empty()) return;
  for (int64_t i = excess_begins_[panel]; i < excess_begins_[panel + 1]; ++i) {
    found->push_back({taps[excess_[i].tap] + excess_[i].block * block_stride, excess_[i].weights});
  }
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

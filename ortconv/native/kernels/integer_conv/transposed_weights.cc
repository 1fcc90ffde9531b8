#include <algorithm>
#include <limits>

#include "base/math.h"
#include "kernels/integer_conv/transposed.h"

namespace ortconv::kernels {
namespace {

using Axis = IntegerTransposedWeights::Axis;
using Tap = IntegerTransposedWeights::Tap;

constexpr int64_t kMostPhases = 4096;
constexpr int64_t kMostReaches = 1 << 16;  // positions, of all axes, that the taps of an output lie among

Axis axis_of(const ConvProblem& p, int i) {
  Axis axis;
  axis.phases.resize(p.stride[i]);
  int64_t least = std::numeric_limits<int64_t>::max(), most = std::numeric_limits<int64_t>::min();
  for (int64_t tap = p.ker[i]; tap-- > 0;) {
    // Output o reads source position (o + pad - tap * dilation) / stride, where that is whole.
    const int64_t before = tap * p.dilation[i] - p.pad[i],
                  phase = before - floor_div(before, p.stride[i]) * p.stride[i];
    const int64_t reach = (phase - before) / p.stride[i];
    axis.phases[phase].push_back({tap, reach});
    least = std::min(least, reach), most = std::max(most, reach);
  }
  axis.least = least, axis.most = most;
  return axis;
}

// The convolution with stride 1 that computes the outputs of one phase. Its taps are equally far apart.
ConvProblem phase_problem(const ConvProblem& p, const std::vector<const std::vector<Tap>*>& taps) {
  ConvProblem phase;
  phase.ndims = p.ndims, phase.g = p.g, phase.ic = p.ic, phase.oc = p.oc;
  for (int i = 0; i < p.ndims; ++i) {
    const std::vector<Tap>& axis = *taps[i];
    phase.ker[i] = static_cast<int64_t>(axis.size());
    phase.stride[i] = 1;
    phase.dilation[i] = axis.size() == 1 ? 1 : axis[1].reach - axis[0].reach;
  }
  return phase;
}

// The weights of one phase, [oc, ic/g, taps...].
std::vector<uint8_t> gathered(const ConvProblem& p, const ConvProblem& phase,
                              const std::vector<const std::vector<Tap>*>& taps, const uint8_t* w) {
  const int64_t count = product_of(phase.ker, p.ndims), all = product_of(p.ker, p.ndims);
  std::vector<int64_t> from(count);
  for (int64_t t = 0; t < count; ++t) {
    int64_t scale = 1, rest = t;
    for (int i = p.ndims; i-- > 0; rest /= phase.ker[i], scale *= p.ker[i]) {
      from[t] += (*taps[i])[rest % phase.ker[i]].index * scale;
    }
  }
  const int64_t inputs = p.ic / p.g, outputs = p.oc / p.g;
  std::vector<uint8_t> weights(p.oc * inputs * count);
  for (int64_t m = 0; m < p.oc; ++m) {
    for (int64_t c = 0; c < inputs; ++c) {
      const uint8_t* const source = w + ((m / outputs * inputs + c) * outputs + m % outputs) * all;
      uint8_t* const target = weights.data() + (m * inputs + c) * count;
      for (int64_t t = 0; t < count; ++t) target[t] = source[from[t]];
    }
  }
  return weights;
}

}  // namespace

std::optional<IntegerTransposedWeights> IntegerTransposedWeights::make(const IntegerConvKernel& kernel,
                                                                       const ConvProblem& p,
                                                                       const IntegerConvFilter& filter) {
  int64_t phases = 1, reaches = 1;
  for (int i = 0; i < p.ndims; ++i) {
    if (p.stride[i] > kMostPhases || (phases *= p.stride[i]) > kMostPhases) return std::nullopt;
    const int64_t apart = (p.ker[i] - 1) * p.dilation[i] / p.stride[i] + 2;
    if (apart > kMostReaches || (reaches *= apart) > kMostReaches) return std::nullopt;
  }
  if (kernel.saturates && is_integer_depthwise(p)) return std::nullopt;
  IntegerTransposedWeights weights(kernel);
  for (int i = 0; i < p.ndims; ++i) weights.axes_.push_back(axis_of(p, i));
  for (int64_t index = 0; index < phases; ++index) {
    Phase phase;
    phase.taps.resize(p.ndims);
    bool has_taps = true;
    for (int64_t i = p.ndims, rest = index; i-- > 0; rest /= p.stride[i]) {
      phase.taps[i] = &weights.axes_[i].phases[rest % p.stride[i]];
      has_taps = has_taps && !phase.taps[i]->empty();
    }
    if (has_taps && p.ic != 0 && p.oc != 0) {
      const ConvProblem problem = phase_problem(p, phase.taps);
      const std::vector<uint8_t> own = gathered(p, problem, phase.taps, filter.w.data);
      phase.weights.emplace(kernel, problem,
                            IntegerConvFilter{{own.data(), filter.w.is_signed}, filter.zeros, filter.zero_count},
                            IntegerConvWeights::Order::kGiven);  // all phases have the same source
    }
    weights.phases_.push_back(std::move(phase));
  }
  return weights;
}

const IntegerConvWeights* IntegerTransposedWeights::any() const {
  for (const Phase& phase : phases_) {
    if (phase.weights) return &*phase.weights;
  }
  return nullptr;
}

double IntegerTransposedWeights::excess_share() const {
  double share = 0, count = 0;
  for (const Phase& phase : phases_) {
    if (phase.weights) share += phase.weights->excess_share(), ++count;
  }
  return count == 0 ? 0 : share / count;
}

std::optional<IntegerTransposedLayout> IntegerTransposedLayout::make(const ConvProblem& p,
                                                                     const IntegerTransposedWeights& weights) {
  if (weights.any() == nullptr) return std::nullopt;
  ConvProblem arranged = p;
  for (int i = 0; i < p.ndims; ++i) {
    const IntegerTransposedWeights::Axis& axis = weights.axes()[i];
    arranged.ker[i] = axis.most - axis.least + 1;
    arranged.stride[i] = arranged.dilation[i] = 1;
    arranged.pad[i] = -axis.least;
    arranged.dst_size[i] = ceil_div(p.dst_size[i], p.stride[i]);
  }
  std::optional<IntegerConvLayout> layout = IntegerConvLayout::make(arranged, weights.kernel());
  if (!layout) return std::nullopt;
  IntegerTransposedLayout made{arranged, std::move(*layout), {}};
  for (const IntegerTransposedWeights::Phase& phase : weights.phases()) {
    std::vector<int64_t> offsets;
    if (phase.weights) {
      int64_t count = 1;
      for (const auto* taps : phase.taps) count *= static_cast<int64_t>(taps->size());
      for (int64_t t = 0; t < count; ++t) {
        int64_t index = 0, scale = 1, rest = t;
        for (int i = p.ndims; i-- > 0;) {
          const auto size = static_cast<int64_t>(phase.taps[i]->size());
          index += ((*phase.taps[i])[rest % size].reach - weights.axes()[i].least) * scale;
          scale *= arranged.ker[i], rest /= size;
        }
        offsets.push_back(made.layout.taps[index]);
      }
      if (phase.weights->depthwise()) {
        std::vector<int64_t> windows;
        for (const IntegerWindow& window : phase.weights->windows()) windows.push_back(offsets[window[0]]);
        offsets = std::move(windows);
      }
    }
    made.taps.push_back(std::move(offsets));
  }
  return made;
}

}  // namespace ortconv::kernels

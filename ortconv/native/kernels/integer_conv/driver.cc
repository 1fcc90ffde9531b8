// Shares a convolution of 8-bit integers among threads. Image by image, the source is arranged; then each work item
// computes some vectors of outputs for some panels of channels.
#include <algorithm>

#include "base/math.h"
#include "base/parallel.h"
#include "base/ranges.h"
#include "kernels/integer_conv/arrange.h"

namespace ortconv::kernels {
namespace {

constexpr int64_t kTiles = 4;  // of a work item; they share the weights of a panel
constexpr int kMostLanes = 16, kMostVectors = 3;

constexpr int64_t kChannels = 4;         // depthwise: channels that are arranged before they are computed
constexpr int64_t kLeastWork = 1 << 13;  // depthwise: fewest products of lanes in a range of channels

size_t channel_bytes(const ConvProblem& p) {
  return static_cast<size_t>(ceil_div(p.oc, 4)) * 4 * sizeof(IntegerChannel);
}

// Scratch of a thread, where depthwise.
int64_t worker_bytes(const ConvProblem& p, const IntegerConvLayout& layout, const IntegerConvKernel& kernel) {
  return static_cast<int64_t>(arranged_bytes(layout, std::min(kChannels, p.g), number_bytes(kernel)));
}

// Threads that have a channel to compute, where depthwise.
int64_t workers(const ConvProblem& p, int threads) { return std::min<int64_t>(threads, p.g); }

class Driver {
 public:
  Driver(const ConvProblem& problem, const IntegerConvLayout& layout, const IntegerConvWeights& weights,
         const IntegerConvOperands& operands, void* scratch, const Parallel& parallel)
      : problem_(problem),
        layout_(layout),
        weights_(weights),
        kernel_(weights.kernel()),
        operands_(operands),
        channels_(static_cast<IntegerChannel*>(scratch)),
        src_(static_cast<unsigned char*>(scratch) + channel_bytes(problem)),
        parallel_(parallel) {}

  void run() const {
    const uint8_t flip = operands_.x.is_signed ? 0x80 : 0;
    const IntegerShift shift{flip, operands_.x_zero + flip};
    for (int64_t m = 0; m < problem_.oc; ++m) {
      channels_[m] = weights_.channel(m, shift);
      channels_[m].scale = operands_.x_scale * operands_.w_scales[operands_.w_scale_count == 1 ? 0 : m];
      if (operands_.bias != nullptr) channels_[m].bias = operands_.bias[m];
    }
    for (int64_t n = 0; n < problem_.mb; ++n) {
      const uint8_t* const x = operands_.x.data + n * problem_.ic * layout_.inputs;
      float* const y = operands_.y + n * problem_.oc * layout_.outputs;
      if (weights_.depthwise()) {
        depthwise(x, shift, y);
      } else {
        arrange(problem_, layout_, weights_, x, shift, reinterpret_cast<uint32_t*>(src_), parallel_);
        tiles(y);
      }
    }
  }

 private:
  void depthwise(const uint8_t* x, const IntegerShift& shift, float* y) const;
  void tiles(float* y) const;
  void multiply(int64_t group, int64_t first, int64_t count, int64_t panel, int64_t last, float* y) const;

  const ConvProblem& problem_;
  const IntegerConvLayout& layout_;
  const IntegerConvWeights& weights_;
  const IntegerConvKernel& kernel_;
  const IntegerConvOperands& operands_;
  IntegerChannel* channels_;
  unsigned char* src_;
  const Parallel& parallel_;
};

// Arranges some channels at a time, so that they stay in L1, and are read some time after they were written.
void Driver::depthwise(const uint8_t* x, const IntegerShift& shift, float* y) const {
  std::vector<int64_t> offsets;
  for (const IntegerWindow& window : weights_.windows()) offsets.push_back(layout_.taps[window[0]]);
  const auto windows = static_cast<int64_t>(offsets.size()), count = static_cast<int64_t>(layout_.positions.size());
  const int64_t multiplier = problem_.oc / problem_.g;
  const auto step = static_cast<int>(layout_.axes.back().step);
  const int64_t bytes = layout_.planes * layout_.plane * number_bytes(kernel_);
  const int64_t work = std::max<int64_t>(layout_.outputs * windows * multiplier, 1);
  const int64_t threads = workers(problem_, parallel_.threads);
  Ranges ranges(problem_.g, 1, ceil_div(kLeastWork, work), threads);
  for_each(parallel_, threads, [&](int64_t worker) {
    unsigned char* const memory = src_ + worker * worker_bytes(problem_, layout_, kernel_);
    int64_t begin, end;
    while (ranges.take(&begin, &end)) {
      for (int64_t first = begin; first < end; first += kChannels) {
        const int64_t last = std::min(first + kChannels, end);
        for (int64_t c = first; c < last; ++c) {
          arrange_channel(layout_, kernel_, x + c * layout_.inputs, shift, memory + (c - first) * bytes);
        }
        for (int64_t m = first * multiplier; m < last * multiplier; ++m) {
          kernel_.depthwise({memory + (m / multiplier - first) * bytes, step, offsets.data(), windows,
                             layout_.positions.data(), count, weights_.lanes(m),
                             channels_[m].zero == 0 ? nullptr : weights_.ones(), channels_[m],
                             y + m * layout_.outputs});
        }
      }
    }
  });
}

void Driver::tiles(float* y) const {
  const auto vectors = static_cast<int64_t>(layout_.positions.size());
  const int64_t chunk = kTiles * kernel_.vectors, chunks = ceil_div(vectors, chunk);
  const int64_t wanted = parallel_.threads == 1 ? 1 : 4 * parallel_.threads;
  const int64_t parts = std::min(ceil_div(wanted, problem_.g * chunks), weights_.panels());
  const int64_t panels = ceil_div(weights_.panels(), parts);
  for_each(parallel_, problem_.g * chunks * parts, [&](int64_t item) {
    const int64_t first = item / parts % chunks * chunk, panel = item % parts * panels;
    multiply(item / parts / chunks, first, std::min(chunk, vectors - first), panel,
             std::min(panel + panels, weights_.panels()), y);
  });
}

void Driver::multiply(int64_t group, int64_t first, int64_t count, int64_t panel, int64_t last, float* y) const {
  const int64_t outputs = problem_.oc / problem_.g;
  IntegerTileArgs args{};
  args.blocks = weights_.blocks();
  args.block_stride = layout_.planes * layout_.plane;
  args.src = reinterpret_cast<const uint32_t*>(src_) + group * args.blocks * args.block_stride;
  args.taps = layout_.taps.data();
  args.tap_count = static_cast<int64_t>(layout_.taps.size());
  args.y_stride = layout_.outputs;
  int32_t sums[kTiles * kMostVectors * kMostLanes];
  const auto each_tile = [&](auto&& fn) {
    for (int64_t i = 0; i < count; i += kernel_.vectors) {
      args.positions = layout_.positions.data() + first + i;
      args.count = static_cast<int>(std::min<int64_t>(kernel_.vectors, count - i));
      fn(sums + i * kernel_.lanes);
    }
  };
  if (weights_.ones() != nullptr) {
    args.weights = weights_.ones();
    each_tile([&](int32_t* out) { kernel_.sums(args, out); });
  }
  for (; panel < last; ++panel) {
    const int64_t channel = group * outputs + panel * kernel_.rows, index = group * weights_.panels() + panel;
    args.weights = weights_.lanes(index);
    if (kernel_.saturates) {
      const std::vector<IntegerExcess>& excess = weights_.excess(index);
      args.excess = excess.data(), args.excess_count = static_cast<int64_t>(excess.size());
      args.excess_weights = weights_.excess_lanes(index);
    }
    args.rows = static_cast<int>(std::min<int64_t>(kernel_.rows, outputs - panel * kernel_.rows));
    args.channels = channels_ + channel;
    args.y = y + channel * layout_.outputs;
    each_tile([&](const int32_t* of) {
      args.sums = weights_.ones() == nullptr ? nullptr : of;
      kernel_.tile(args);
    });
  }
}

}  // namespace

size_t integer_conv_scratch_bytes(const ConvProblem& problem, const IntegerConvLayout& layout,
                                  const IntegerConvWeights& weights, int threads) {
  if (weights.depthwise()) {
    return channel_bytes(problem) + workers(problem, threads) * worker_bytes(problem, layout, weights.kernel());
  }
  return channel_bytes(problem) + arranged_bytes(layout, problem.g * weights.blocks(), sizeof(uint32_t));
}

void integer_conv(const ConvProblem& problem, const IntegerConvLayout& layout, const IntegerConvWeights& weights,
                  const IntegerConvOperands& operands, void* scratch, const Parallel& parallel) {
  Driver(problem, layout, weights, operands, scratch, parallel).run();
}

}  // namespace ortconv::kernels

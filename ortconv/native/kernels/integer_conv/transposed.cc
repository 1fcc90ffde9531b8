// Shares a transposed convolution of 8-bit integers among threads. Image by image, the source is arranged; then each
// work item computes some vectors of positions, for some panels of channels and all phases of the last axis.
#include "kernels/integer_conv/transposed.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/math.h"
#include "base/ranges.h"
#include "kernels/integer_conv/arrange.h"

namespace ortconv::kernels {
namespace {

constexpr int64_t kMostTiles = 4;           // of a work item, a phase and all rows; they share the weights of a panel
constexpr int64_t kBufferBytes = 24 << 10;  // of its sums, which are to stay in L1
constexpr int64_t kChannels = 4;            // depthwise: channels that are arranged before they are computed
constexpr int64_t kLeastWork = 1 << 13;     // depthwise: fewest products of lanes in a range of channels

// Outputs that follow each other in memory, and where their sums begin among those of the positions of a work item.
struct Segment {
  int64_t sums, y, count;
};

// Rows of sums that are computed at once: all of a panel, or those of fewer channels.
int64_t rows_of_sums(const IntegerConvKernel& kernel, const ConvProblem& p) {
  return std::min<int64_t>(kernel.rows, computed_rows(kernel, p.oc / p.g));
}

// Vectors of a work item: those whose sums, in `rows` rows of every phase of the last axis, fit into a buffer.
int64_t vectors_of_item(const IntegerConvKernel& kernel, const ConvProblem& p, int64_t rows) {
  const int64_t bytes = rows * p.stride[p.ndims - 1] * kernel.lanes * static_cast<int64_t>(sizeof(float));
  return std::clamp<int64_t>(kBufferBytes / bytes / kernel.vectors, 1, kMostTiles * kernel.rows / rows) *
         kernel.vectors;
}

class Driver {
 public:
  Driver(const ConvProblem& problem, const IntegerTransposedLayout& layout, const IntegerTransposedWeights& weights,
         const IntegerResultKernel& result, const IntegerResultOperands& operands, void* scratch,
         const Parallel& parallel)
      : p_(problem),
        layout_(layout),
        weights_(weights),
        any_(*weights.any()),
        kernel_(weights.kernel()),
        result_(result),
        operands_(operands),
        channels_(static_cast<IntegerChannel*>(scratch)),
        src_(static_cast<unsigned char*>(scratch) + channel_bytes(problem, weights)),
        parallel_(parallel),
        last_(problem.ndims - 1),
        width_(problem.stride[last_]),
        outputs_(product_of(problem.dst_size, problem.ndims)) {}

  static size_t channel_bytes(const ConvProblem& p, const IntegerTransposedWeights& weights) {
    return align64(weights.phases().size() * static_cast<size_t>(p.oc) * sizeof(IntegerChannel));
  }

  void run() {
    const uint8_t flip = operands_.x.is_signed ? 0x80 : 0;
    shift_ = {flip, operands_.x_zero + flip};
    for (size_t phase = 0; phase < weights_.phases().size(); ++phase) {
      const auto& weights = weights_.phases()[phase].weights;
      if (!weights) continue;
      for (int64_t m = 0; m < p_.oc; ++m) channels_[phase * p_.oc + m] = weights->channel(m, shift_);
    }
    for (image_ = 0; image_ < p_.mb; ++image_) {
      const uint8_t* const x = operands_.x.data + image_ * p_.ic * layout_.layout.inputs;
      if (any_.depthwise()) {
        depthwise(x);
      } else {
        arrange(layout_.arranged, layout_.layout, any_, x, shift_, reinterpret_cast<uint32_t*>(src_), parallel_);
        tiles();
      }
    }
  }

 private:
  int64_t groups_of_phases() const { return static_cast<int64_t>(weights_.phases().size()) / width_; }
  const PositionVector* positions() const { return layout_.layout.positions.data(); }
  int64_t vectors() const { return static_cast<int64_t>(layout_.layout.positions.size()); }
  // Floats of a row of sums of one phase.
  int64_t row_floats(int64_t vectors) const { return vectors * kernel_.lanes; }

  // Depthwise: some vectors of positions, for a phase of all axes but the last one.
  struct Part {
    int64_t outer;
    std::vector<PositionVector> positions;
    std::vector<Segment> segments;
  };

  void depthwise(const uint8_t* x);
  std::vector<Part> parts_of(int64_t chunk) const;
  void sum_channel(const unsigned char* src, int64_t m, const Part& part, int64_t row, std::vector<float>* sums) const;
  std::vector<PositionVector> shifted_positions(int64_t first, int64_t count) const;
  void tiles();
  void multiply(int64_t group, int64_t first, int64_t count, int64_t outer, int64_t panel, int64_t last);
  std::vector<Segment> segments(int64_t first, int64_t count, int64_t outer) const;
  void store(int64_t m, const std::vector<Segment>& segments, const float* sums, int64_t phase_stride) const;

  const ConvProblem& p_;
  const IntegerTransposedLayout& layout_;
  const IntegerTransposedWeights& weights_;
  const IntegerConvWeights& any_;
  const IntegerConvKernel& kernel_;
  const IntegerResultKernel& result_;
  const IntegerResultOperands& operands_;
  IntegerChannel* channels_;  // [phase][oc]
  unsigned char* src_;
  const Parallel& parallel_;
  const int last_;
  const int64_t width_;  // phases of the last axis
  const int64_t outputs_;
  IntegerShift shift_{};
  int64_t image_ = 0;
};

// What becomes of the sums of `count` vectors from `first` on, for the phases of the last axis that belong to `outer`,
// a phase of all others.
std::vector<Segment> Driver::segments(int64_t first, int64_t count, int64_t outer) const {
  const int64_t begin = positions()[first].dst;
  const PositionVector& vector = positions()[first + count - 1];
  const int64_t end = vector.dst + vector.count, width = layout_.arranged.dst_size[last_];
  std::vector<Segment> found;
  for (int64_t at = begin; at < end;) {
    const int64_t column = at % width, next = std::min(end, at - column + width);
    int64_t row = at / width, phase = outer, y = 0, scale = p_.dst_size[last_];
    bool inside = true;
    for (int i = last_; i-- > 0;) {
      const int64_t position = row % layout_.arranged.dst_size[i] * p_.stride[i] + phase % p_.stride[i];
      inside = inside && position < p_.dst_size[i];
      y += position * scale;
      scale *= p_.dst_size[i], row /= layout_.arranged.dst_size[i], phase /= p_.stride[i];
    }
    const int64_t last = std::min((column + next - at) * width_, p_.dst_size[last_]);
    const Segment segment{at - begin, y + column * width_, last - column * width_};
    at = next;
    if (!inside || segment.count <= 0) continue;
    if (!found.empty()) {
      Segment& previous = found.back();
      if (previous.y + previous.count == segment.y &&
          previous.sums * width_ + previous.count == segment.sums * width_) {
        previous.count += segment.count;
        continue;
      }
    }
    found.push_back(segment);
  }
  return found;
}

void Driver::store(int64_t m, const std::vector<Segment>& segments, const float* sums, int64_t phase_stride) const {
  IntegerResultArgs args = integer_result_args(p_, operands_, m);
  const int64_t bytes = operands_.type == ResultType::kFloat ? sizeof(float) : 1;
  const int64_t channel = (image_ * p_.oc + m) * outputs_;
  auto* const y = static_cast<unsigned char*>(operands_.y) + channel * bytes;
  const auto* const residual = static_cast<const unsigned char*>(operands_.residual);
  constexpr int64_t kFew = 16;
  const float* few[kFew];
  std::vector<const float*> many(width_ > kFew ? width_ : 0);
  const float** const rows = width_ > kFew ? many.data() : few;
  args.sums = rows, args.phases = width_;
  for (const Segment& segment : segments) {
    for (int64_t phase = 0; phase < width_; ++phase) rows[phase] = sums + phase * phase_stride + segment.sums;
    args.count = segment.count;
    args.y = y + segment.y * bytes;
    if (residual != nullptr) args.residual = residual + channel + segment.y;
    result_(operands_.type, args);
  }
}

void Driver::tiles() {
  const int64_t chunk = vectors_of_item(kernel_, p_, rows_of_sums(kernel_, p_)), chunks = ceil_div(vectors(), chunk),
                outer = groups_of_phases();
  const int64_t wanted = parallel_.threads == 1 ? 1 : 4 * parallel_.threads;
  const int64_t parts = std::min(ceil_div(wanted, p_.g * chunks * outer), any_.panels());
  const int64_t panels = ceil_div(any_.panels(), parts);
  // Neighbours among the items share the weights of their phases.
  for_each(parallel_, p_.g * outer * chunks * parts, [&](int64_t item) {
    const int64_t panel = item % parts * panels, first = item / parts % chunks * chunk;
    multiply(item / parts / chunks / outer, first, std::min(chunk, vectors() - first), item / parts / chunks % outer,
             panel, std::min(panel + panels, any_.panels()));
  });
}

void Driver::multiply(int64_t group, int64_t first, int64_t count, int64_t outer, int64_t panel, int64_t last) {
  const std::vector<Segment> stored = segments(first, count, outer);
  if (stored.empty()) return;
  const int64_t outputs = p_.oc / p_.g, row = row_floats(count), phase_stride = rows_of_sums(kernel_, p_) * row;
  std::vector<float> sums(width_ * phase_stride + IntegerResultArgs::kReadBeyond);
  std::vector<int32_t> of_src(any_.ones() == nullptr ? 0 : width_ * row);
  IntegerTileArgs args{};
  args.blocks = any_.blocks();
  args.block_stride = layout_.layout.block_stride;
  const std::vector<PositionVector> vectors = shifted_positions(first, count);
  const int64_t channel_lanes = layout_.layout.planes * layout_.layout.plane;
  args.src = reinterpret_cast<const uint32_t*>(src_) + group * args.blocks * channel_lanes;
  args.y_stride = row;
  args.positions = vectors.data(), args.count = count;
  const auto set_taps = [&](int64_t phase) {
    const std::vector<int64_t>& taps = layout_.taps[outer * width_ + phase];
    args.taps = taps.data(), args.tap_count = static_cast<int64_t>(taps.size());
  };
  const auto weights_of = [&](int64_t phase) -> const std::optional<IntegerConvWeights>& {
    return weights_.phases()[outer * width_ + phase].weights;
  };
  if (any_.ones() != nullptr) {
    for (int64_t phase = 0; phase < width_; ++phase) {
      if (!weights_of(phase)) continue;
      args.weights = weights_of(phase)->ones();
      set_taps(phase);
      kernel_.sums(args, of_src.data() + phase * row);
    }
  }
  std::vector<IntegerExcess> excess;
  for (; panel < last; ++panel) {
    const int64_t channel = group * outputs + panel * kernel_.rows;
    args.rows = static_cast<int>(std::min<int64_t>(kernel_.rows, outputs - panel * kernel_.rows));
    for (int64_t phase = 0; phase < width_; ++phase) {
      if (!weights_of(phase)) continue;  // its sums stay zeros
      const int64_t index = group * any_.panels() + panel;
      args.weights = weights_of(phase)->lanes(index);
      weights_of(phase)->find_excess(index, layout_.taps[outer * width_ + phase].data(), args.block_stride, &excess);
      args.excess = excess.data();
      args.excess_count = static_cast<int64_t>(excess.size()) / kernel_.rows;
      args.channels = channels_ + (outer * width_ + phase) * p_.oc + channel;
      args.y = sums.data() + phase * phase_stride;
      args.sums = of_src.empty() ? nullptr : of_src.data() + phase * row;
      set_taps(phase);
      kernel_.tiles(args);
    }
    for (int r = 0; r < args.rows; ++r) store(channel + r, stored, sums.data() + r * row, phase_stride);
  }
}

// Arranges some channels at a time, so that they stay in L1, and are read some time after they were written.
void Driver::depthwise(const uint8_t* x) {
  const IntegerConvLayout& layout = layout_.layout;
  const int64_t multiplier = p_.oc / p_.g, chunk = vectors_of_item(kernel_, p_, 1), row = row_floats(chunk);
  const int64_t bytes = layout.planes * layout.plane * number_bytes(kernel_);
  const std::vector<Part> parts = parts_of(chunk);
  const int64_t workers = std::min<int64_t>(parallel_.threads, p_.g);
  const auto room = static_cast<int64_t>(arranged_bytes(layout, std::min(kChannels, p_.g), number_bytes(kernel_)));
  Ranges ranges(p_.g, 1, ceil_div(kLeastWork, std::max<int64_t>(outputs_ * multiplier, 1)), workers);
  for_each(parallel_, workers, [&](int64_t worker) {
    unsigned char* const memory = src_ + worker * room;
    std::vector<float> sums(width_ * row + IntegerResultArgs::kReadBeyond);
    int64_t begin, end;
    while (ranges.take(&begin, &end)) {
      for (int64_t first = begin; first < end; first += kChannels) {
        const int64_t last = std::min(first + kChannels, end);
        for (int64_t c = first; c < last; ++c) {
          arrange_channel(layout, kernel_, x + c * layout.inputs, shift_, memory + (c - first) * bytes);
        }
        for (int64_t m = first * multiplier; m < last * multiplier; ++m) {
          const unsigned char* const arranged = memory + (m / multiplier - first) * bytes;
          for (const Part& part : parts) sum_channel(arranged, m, part, row, &sums);
        }
      }
    }
  });
}

// Cuts the positions into parts of so many vectors, for each phase of the axes but the last one.
std::vector<Driver::Part> Driver::parts_of(int64_t chunk) const {
  std::vector<Part> parts;
  for (int64_t first = 0; first < vectors(); first += chunk) {
    const int64_t count = std::min(chunk, vectors() - first);
    for (int64_t outer = 0; outer < groups_of_phases(); ++outer) {
      Part part{outer, shifted_positions(first, count), segments(first, count, outer)};
      if (!part.segments.empty()) parts.push_back(std::move(part));
    }
  }
  return parts;
}

void Driver::sum_channel(const unsigned char* src, int64_t m, const Part& part, int64_t row,
                         std::vector<float>* sums) const {
  for (int64_t phase = 0; phase < width_; ++phase) {
    const int64_t index = part.outer * width_ + phase;
    const std::optional<IntegerConvWeights>& weights = weights_.phases()[index].weights;
    if (!weights) {
      std::fill_n(sums->data() + phase * row, row, 0.0f);
      continue;
    }
    const std::vector<int64_t>& windows = layout_.taps[index];
    const IntegerChannel& channel = channels_[index * p_.oc + m];
    kernel_.depthwise({src, 1, windows.data(), static_cast<int64_t>(windows.size()), part.positions.data(),
                       static_cast<int64_t>(part.positions.size()), weights->lanes(m),
                       channel.zero == 0 ? nullptr : weights->ones(), channel, sums->data() + phase * row});
  }
  store(m, part.segments, sums->data(), row);
}

// Those of a part, stored from the first one on.
std::vector<PositionVector> Driver::shifted_positions(int64_t first, int64_t count) const {
  std::vector<PositionVector> shifted(positions() + first, positions() + first + count);
  for (PositionVector& each : shifted) each.dst -= positions()[first].dst;
  return shifted;
}

}  // namespace

size_t integer_transposed_scratch_bytes(const ConvProblem& problem, const IntegerTransposedLayout& layout,
                                        const IntegerTransposedWeights& weights, int threads) {
  const size_t channels = Driver::channel_bytes(problem, weights);
  const IntegerConvKernel& kernel = weights.kernel();
  if (weights.any()->depthwise()) {
    const auto workers = static_cast<size_t>(std::min<int64_t>(threads, problem.g));
    return channels + workers * arranged_bytes(layout.layout, std::min(kChannels, problem.g), number_bytes(kernel));
  }
  return channels + arranged_bytes(layout.layout, problem.g * weights.any()->blocks(), sizeof(uint32_t));
}

IntegerWork integer_transposed_work(const ConvProblem& p, const IntegerTransposedLayout& layout,
                                    const IntegerTransposedWeights& weights) {
  const IntegerConvWeights& any = *weights.any();
  const int64_t computed = computed_rows(any.kernel(), p.oc / p.g);
  const auto images = static_cast<double>(p.mb), vectors = static_cast<double>(layout.layout.positions.size());
  IntegerWork work{};
  const double passes = passes_of(weights.excess_share());
  for (const std::vector<int64_t>& taps : layout.taps) {
    const auto rows = static_cast<double>(any.depthwise() ? p.oc : p.g * computed * any.blocks());
    work.dots += passes * images * vectors * static_cast<double>(taps.size()) * rows;
  }
  const double planes = static_cast<double>(layout.layout.planes) * static_cast<double>(layout.layout.plane);
  work.arranged = images * planes * static_cast<double>(p.g * (any.depthwise() ? 1 : any.blocks()));
  work.rows = images * static_cast<double>(p.oc) * static_cast<double>(product_of(p.dst_size, p.ndims - 1));
  const int64_t rows = any.depthwise() ? 1 : rows_of_sums(any.kernel(), p);
  work.items = images * static_cast<double>(p.g * static_cast<int64_t>(layout.taps.size()) / p.stride[p.ndims - 1]) *
               std::ceil(vectors / static_cast<double>(vectors_of_item(any.kernel(), p, rows)));
  return work;
}

void integer_transposed(const ConvProblem& problem, const IntegerTransposedLayout& layout,
                        const IntegerTransposedWeights& weights, const IntegerResultKernel& result,
                        const IntegerResultOperands& operands, void* scratch, const Parallel& parallel) {
  Driver(problem, layout, weights, result, operands, scratch, parallel).run();
}

}  // namespace ortconv::kernels

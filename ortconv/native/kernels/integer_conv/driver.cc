// Shares a convolution of 8-bit integers among threads. Image by image, the source is arranged; then each work item
// computes some vectors of outputs for some panels of channels. Kernels write floats to where they stay, or sums to a
// buffer from which a result is made.
#include <algorithm>
#include <optional>
#include <vector>

#include "base/math.h"
#include "base/parallel.h"
#include "base/ranges.h"
#include "kernels/integer_conv/arrange.h"
#include "kernels/integer_conv/result.h"

namespace ortconv::kernels {
namespace {

// Tiles of a work item, which share the weights of a panel: more where a tile reads little, so that the source of all
// of them stays near.
constexpr int64_t kLeastTiles = 16, kMostTiles = 128, kMostBlocks = 1024;
constexpr int kMostLanes = 16, kMostVectors = 3;

constexpr int64_t kChannels = 4;         // depthwise: channels that are arranged before they are computed
constexpr int64_t kLeastWork = 1 << 13;  // depthwise: fewest products of lanes in a range of channels
constexpr int64_t kBuffered = 64;        // depthwise: vectors of sums in a buffer

size_t channel_bytes(const ConvProblem& p) {
  return static_cast<size_t>(ceil_div(p.oc, 4)) * 4 * sizeof(IntegerChannel);
}

// Scratch of a thread, where depthwise.
int64_t worker_bytes(const ConvProblem& p, const IntegerConvLayout& layout, const IntegerConvKernel& kernel) {
  return static_cast<int64_t>(arranged_bytes(layout, std::min(kChannels, p.g), number_bytes(kernel)));
}

// Threads that have a channel to compute, where depthwise.
int64_t workers(const ConvProblem& p, int threads) { return std::min<int64_t>(threads, p.g); }

// Whether so many outputs of a channel are known to have equal biases.
bool has_equal_biases(const IntegerResultOperands& operands, int64_t first, int64_t count) {
  return operands.equal_biases != nullptr && operands.equal_biases[first] >= first + count;
}

// The buffer of a work item, from which results are stored.
class Buffer {
 public:
  Buffer(const ConvProblem& problem, const IntegerResultKernel& result, const IntegerResultOperands& operands,
         int64_t outputs)
      : problem_(problem), result_(result), operands_(operands), outputs_(outputs) {}

  // Of so many rows.
  float* make(int64_t rows, int64_t stride) {
    sums_.resize(rows * stride + IntegerResultArgs::kReadBeyond);
    return sums_.data();
  }

  // Stores the outputs of one channel of an image, from `first` on.
  void store(int64_t image, int64_t m, int64_t first, int64_t count, const float* sums) const {
    IntegerResultArgs args = integer_result_args(problem_, operands_, m);
    const int64_t bytes = operands_.type == ResultType::kFloat ? sizeof(float) : 1;
    args.sums = &sums, args.phases = 1, args.count = count;
    args.y = static_cast<unsigned char*>(operands_.y) + ((image * problem_.oc + m) * outputs_ + first) * bytes;
    if (operands_.biases != nullptr) {
      args.biases = operands_.biases + m * outputs_ + first;
      if (has_equal_biases(operands_, first, count)) args.bias = *args.biases, args.biases = nullptr;
    }
    result_(operands_.type, args);
  }

 private:
  const ConvProblem& problem_;
  const IntegerResultKernel& result_;
  const IntegerResultOperands& operands_;
  const int64_t outputs_;
  std::vector<float> sums_;
};

// Lanes of vectors that are outputs, one after the other.
struct Run {
  int64_t first, count;
};

std::vector<Run> runs_of(const PositionVector* positions, int64_t count, int lanes) {
  std::vector<Run> runs;
  for (int64_t lane = 0; lane < count * lanes; ++lane) {
    if ((positions[lane / lanes].lanes >> lane % lanes & 1) == 0) continue;
    if (runs.empty() || runs.back().first + runs.back().count != lane) runs.push_back({lane, 0});
    ++runs.back().count;
  }
  return runs;
}

class Driver {
 public:
  Driver(const ConvProblem& problem, const IntegerConvLayout& layout, const IntegerConvWeights& weights, Bytes x,
         int32_t x_zero, void* scratch, const Parallel& parallel)
      : problem_(problem),
        layout_(layout),
        weights_(weights),
        kernel_(weights.kernel()),
        x_(x),
        shift_(shift_of(x, x_zero)),
        channels_(static_cast<IntegerChannel*>(scratch)),
        src_(static_cast<unsigned char*>(scratch) + channel_bytes(problem)),
        parallel_(parallel) {
    for (int64_t m = 0; m < problem.oc; ++m) channels_[m] = weights.channel(m, shift_);
  }

  void run_to_floats(const IntegerConvOperands& operands) {
    for (int64_t m = 0; m < problem_.oc; ++m) {
      channels_[m].scale = operands.x_scale * operands.w_scales[operands.w_scale_count == 1 ? 0 : m];
      if (operands.bias != nullptr) channels_[m].bias = operands.bias[m];
    }
    floats_ = operands.y;
    run();
  }

  void run_to_results(const IntegerResultKernel& result, const IntegerResultOperands& operands) {
    result_ = &result, operands_ = &operands;
    buffered_ = layout_.positions;
    const auto chunk = static_cast<size_t>(this->chunk());
    for (size_t first = 0; first < buffered_.size(); first += chunk) {
      const int64_t begin = buffered_[first].dst;
      for (size_t i = first; i < std::min(first + chunk, buffered_.size()); ++i) buffered_[i].dst -= begin;
    }
    run();
  }

 private:
  static IntegerShift shift_of(Bytes x, int32_t zero) {
    const uint8_t flip = x.is_signed ? 0x80 : 0;
    return {flip, zero + flip};
  }

  // Vectors of positions that are computed together.
  int64_t chunk() const { return weights_.depthwise() ? kBuffered : tiles_of_item() * kernel_.vectors; }
  int64_t tiles_of_item() const {
    if (operands_ != nullptr && operands_->biases != nullptr) return kLeastTiles;  // biases of all lanes stay near, too
    return std::clamp(kMostBlocks / std::max<int64_t>(weights_.blocks(), 1), kLeastTiles, kMostTiles);
  }

  void run() {
    for (image_ = 0; image_ < problem_.mb; ++image_) {
      const uint8_t* const x = x_.data + image_ * problem_.ic * layout_.inputs;
      if (weights_.depthwise()) {
        depthwise(x);
      } else {
        arrange(problem_, layout_, weights_, x, shift_, reinterpret_cast<uint32_t*>(src_), parallel_);
        tiles();
      }
    }
  }

  float* floats_of(int64_t m) const { return floats_ + (image_ * problem_.oc + m) * layout_.outputs; }
  // How many outputs so many vectors have, from one on.
  int64_t outputs_of(int64_t first, int64_t count) const {
    const PositionVector& last = layout_.positions[first + count - 1];
    return last.dst + last.count - layout_.positions[first].dst;
  }

  void depthwise(const uint8_t* x) const;
  void tiles() const;
  void multiply(int64_t group, int64_t first, int64_t count, int64_t panel, int64_t last) const;
  void multiply_to_floats(IntegerTileArgs args, int64_t group, int64_t first, int64_t panel, int64_t last) const;
  void multiply_to_results(IntegerTileArgs args, int64_t group, int64_t first, int64_t panel, int64_t last) const;
  void set_panel(int64_t group, int64_t panel, IntegerTileArgs* args, std::vector<IntegerExcess>* excess) const;
  bool stores_results() const;

  const ConvProblem& problem_;
  const IntegerConvLayout& layout_;
  const IntegerConvWeights& weights_;
  const IntegerConvKernel& kernel_;
  const Bytes x_;
  const IntegerShift shift_;
  IntegerChannel* channels_;
  unsigned char* src_;
  const Parallel& parallel_;
  int64_t image_ = 0;

  float* floats_ = nullptr;  // null: results are made
  const IntegerResultKernel* result_ = nullptr;
  const IntegerResultOperands* operands_ = nullptr;
  std::vector<PositionVector> buffered_;  // whose outputs are counted from the first of their chunk
};

// Arranges some channels at a time, so that they stay in L1, and are read some time after they were written.
void Driver::depthwise(const uint8_t* x) const {
  std::vector<int64_t> offsets;
  for (const IntegerWindow& window : weights_.windows()) offsets.push_back(layout_.taps[window[0]]);
  const auto windows = static_cast<int64_t>(offsets.size()), count = static_cast<int64_t>(layout_.positions.size());
  const int64_t multiplier = problem_.oc / problem_.g;
  const auto step = static_cast<int>(layout_.axes.back().step);
  const int64_t bytes = layout_.planes * layout_.plane * number_bytes(kernel_);
  const int64_t work = std::max<int64_t>(layout_.outputs * windows * multiplier, 1);
  const int64_t threads = workers(problem_, parallel_.threads);
  const auto sum = [&](const unsigned char* src, int64_t m, const PositionVector* positions, int64_t vectors,
                       float* y) {
    kernel_.depthwise({src, step, offsets.data(), windows, positions, vectors, weights_.lanes(m),
                       channels_[m].zero == 0 ? nullptr : weights_.ones(), channels_[m], y});
  };
  Ranges ranges(problem_.g, 1, ceil_div(kLeastWork, work), threads);
  for_each(parallel_, threads, [&](int64_t worker) {
    unsigned char* const memory = src_ + worker * worker_bytes(problem_, layout_, kernel_);
    std::optional<Buffer> buffer;
    float* sums = nullptr;
    if (floats_ == nullptr) {
      buffer.emplace(problem_, *result_, *operands_, layout_.outputs);
      sums = buffer->make(1, kBuffered * kernel_.lanes);
    }
    int64_t begin, end;
    while (ranges.take(&begin, &end)) {
      for (int64_t first = begin; first < end; first += kChannels) {
        const int64_t last = std::min(first + kChannels, end);
        for (int64_t c = first; c < last; ++c) {
          arrange_channel(layout_, kernel_, x + c * layout_.inputs, shift_, memory + (c - first) * bytes);
        }
        for (int64_t m = first * multiplier; m < last * multiplier; ++m) {
          const unsigned char* const src = memory + (m / multiplier - first) * bytes;
          if (!buffer) {
            sum(src, m, layout_.positions.data(), count, floats_of(m));
            continue;
          }
          for (int64_t at = 0; at < count; at += kBuffered) {
            const int64_t vectors = std::min(kBuffered, count - at);
            sum(src, m, buffered_.data() + at, vectors, sums);
            buffer->store(image_, m, layout_.positions[at].dst, outputs_of(at, vectors), sums);
          }
        }
      }
    }
  });
}

void Driver::tiles() const {
  const auto vectors = static_cast<int64_t>(layout_.positions.size());
  const int64_t chunks = ceil_div(vectors, chunk());
  const int64_t wanted = parallel_.threads == 1 ? 1 : 4 * parallel_.threads;
  const int64_t parts = std::min(ceil_div(wanted, problem_.g * chunks), weights_.panels());
  const int64_t panels = ceil_div(weights_.panels(), parts);
  for_each(parallel_, problem_.g * chunks * parts, [&](int64_t item) {
    const int64_t first = item / parts % chunks * chunk(), panel = item % parts * panels;
    multiply(item / parts / chunks, first, std::min(chunk(), vectors - first), panel,
             std::min(panel + panels, weights_.panels()));
  });
}

// Whether the kernel stores results: of a single output it does not.
bool Driver::stores_results() const {
  return kernel_.stores_results && floats_ == nullptr && operands_->type != ResultType::kFloat && layout_.outputs > 1;
}

void Driver::multiply(int64_t group, int64_t first, int64_t count, int64_t panel, int64_t last) const {
  IntegerTileArgs args{};
  args.blocks = weights_.blocks();
  args.block_stride = layout_.block_stride;
  args.src = reinterpret_cast<const uint32_t*>(src_) + group * args.blocks * layout_.planes * layout_.plane;
  args.taps = layout_.taps.data();
  args.tap_count = static_cast<int64_t>(layout_.taps.size());
  args.positions = layout_.positions.data() + first, args.count = count;
  int32_t sums[kMostTiles * kMostVectors * kMostLanes];
  if (weights_.ones() != nullptr) {
    args.weights = weights_.ones();
    kernel_.sums(args, sums);
    args.sums = sums;
  }
  if (stores_results()) return multiply_to_results(args, group, first, panel, last);
  multiply_to_floats(args, group, first, panel, last);
}

void Driver::set_panel(int64_t group, int64_t panel, IntegerTileArgs* args, std::vector<IntegerExcess>* excess) const {
  const int64_t outputs = problem_.oc / problem_.g, index = group * weights_.panels() + panel;
  args->weights = weights_.lanes(index);
  args->rows = static_cast<int>(std::min<int64_t>(kernel_.rows, outputs - panel * kernel_.rows));
  args->channels = channels_ + group * outputs + panel * kernel_.rows;
  weights_.find_excess(index, layout_.taps.data(), args->block_stride, excess);
  args->excess = excess->data(), args->excess_count = static_cast<int64_t>(excess->size()) / kernel_.rows;
}

void Driver::multiply_to_floats(IntegerTileArgs args, int64_t group, int64_t first, int64_t panel, int64_t last) const {
  std::vector<IntegerExcess> excess;
  std::optional<Buffer> buffer;
  args.y_stride = layout_.outputs;
  if (floats_ == nullptr) {
    buffer.emplace(problem_, *result_, *operands_, layout_.outputs);
    args.y_stride = args.count * kernel_.lanes;
    args.y = buffer->make(kernel_.rows, args.y_stride);
    args.positions = buffered_.data() + first;
  }
  for (; panel < last; ++panel) {
    set_panel(group, panel, &args, &excess);
    const int64_t channel = args.channels - channels_;
    if (!buffer) args.y = floats_of(channel);
    kernel_.tiles(args);
    for (int r = 0; buffer && r < args.rows; ++r) {
      buffer->store(image_, channel + r, layout_.positions[first].dst, outputs_of(first, args.count),
                    args.y + r * args.y_stride);
    }
  }
}

// The kernel stores bytes for all lanes of its vectors: where some are no outputs, to a buffer.
void Driver::multiply_to_results(IntegerTileArgs args, int64_t group, int64_t first, int64_t panel,
                                 int64_t last) const {
  const int64_t begin = layout_.positions[first].dst, count = outputs_of(first, args.count);
  const int64_t lanes = args.count * kernel_.lanes;
  const std::vector<Run> runs =
      count == lanes ? std::vector<Run>() : runs_of(args.positions, args.count, kernel_.lanes);
  const bool has_biases = operands_->biases != nullptr && !has_equal_biases(*operands_, begin, count);
  std::vector<unsigned char> buffer(runs.empty() ? 0 : kernel_.rows * lanes);
  std::vector<float> biases(runs.empty() || !has_biases ? 0 : kernel_.rows * lanes);
  std::vector<IntegerExcess> excess;
  std::vector<IntegerResultArgs> rows(kernel_.rows);
  IntegerTileResults results{rows.data(), true, operands_->type, buffer.data(), runs.empty() ? layout_.outputs : lanes};
  args.results = &results;
  for (; panel < last; ++panel) {
    set_panel(group, panel, &args, &excess);
    const int64_t channel = args.channels - channels_;
    results.is_plain = true;
    for (int r = 0; r < args.rows; ++r) {
      rows[r] = integer_result_args(problem_, *operands_, channel + r);
      results.is_plain = results.is_plain && rows[r].is_plain(operands_->type);
      if (operands_->biases == nullptr) continue;
      const float* from = operands_->biases + (channel + r) * layout_.outputs + begin;
      rows[r].bias = *from;
      if (!has_biases) continue;
      rows[r].biases = runs.empty() ? from : biases.data() + r * lanes;
      for (const Run& run : runs) {
        std::copy_n(from, run.count, biases.data() + r * lanes + run.first);
        from += run.count;
      }
    }
    auto* const y =
        static_cast<unsigned char*>(operands_->y) + (image_ * problem_.oc + channel) * layout_.outputs + begin;
    if (runs.empty()) results.y = y;
    kernel_.tiles(args);
    for (int r = 0; r < args.rows; ++r) {
      unsigned char* out = y + r * layout_.outputs;
      for (const Run& run : runs) out = std::copy_n(results.y + r * lanes + run.first, run.count, out);
    }
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
  Driver(problem, layout, weights, operands.x, operands.x_zero, scratch, parallel).run_to_floats(operands);
}

void integer_conv_result(const ConvProblem& problem, const IntegerConvLayout& layout, const IntegerConvWeights& weights,
                         const IntegerResultKernel& result, const IntegerResultOperands& operands, void* scratch,
                         const Parallel& parallel) {
  Driver(problem, layout, weights, operands.x, operands.x_zero, scratch, parallel).run_to_results(result, operands);
}

}  // namespace ortconv::kernels

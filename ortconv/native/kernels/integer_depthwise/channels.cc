#include "kernels/integer_depthwise/channels.h"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>

#include "base/math.h"
#include "kernels/integer_conv/layout.h"

namespace ortconv::kernels {
namespace {

constexpr int64_t kLanes = kChannelLanes;
constexpr int64_t kMostColumns = 48;              // of outputs in a tile
constexpr int64_t kTileBytes = 40 << 10;          // of lanes, so that most stay in L1
constexpr int64_t kMostBytes = int64_t{1} << 20;  // that a row of outputs may need

IntegerChannelsAxis axis_of(const ConvProblem& p, int i) {
  return {p.src_size[i], -p.pad[i], p.dst_size[i], p.stride[i], p.dilation[i]};
}
IntegerChannelsAxis rows_of(const ConvProblem& p) {
  return p.ndims == 1 ? IntegerChannelsAxis{1, 0, 1, 1, 1} : axis_of(p, 0);
}
int64_t tap_rows(const ConvProblem& p) { return p.ndims == 1 ? 1 : p.ker[0]; }
int64_t windows_of_row(const ConvProblem& p) { return ceil_div(p.ker[p.ndims - 1], kTapsOfLane); }
int64_t blocks_of(const ConvProblem& p) { return ceil_div(p.g, kLanes); }

// The largest tile of a problem, without pointers.
IntegerChannelsTile largest_tile(const ConvProblem& p) {
  IntegerChannelsTile tile{};
  tile.rows = rows_of(p), tile.columns = axis_of(p, p.ndims - 1);
  tile.tap_rows = tap_rows(p), tile.tap_columns = p.ker[p.ndims - 1];
  tile.columns.outputs = ceil_div(tile.columns.outputs, ceil_div(tile.columns.outputs, kMostColumns));
  const int64_t row_bytes = tile.positions() * kLanes * static_cast<int64_t>(sizeof(uint32_t)),
                rows = tile.rows.outputs;
  tile.rows.outputs = 1;
  const int64_t more = kTileBytes / row_bytes - tile.source_rows();
  tile.rows.outputs = std::clamp<int64_t>(more / tile.rows.stride + 1, 1, rows);
  tile.rows.outputs = ceil_div(rows, ceil_div(rows, tile.rows.outputs));
  return tile;
}

struct Scratch {
  size_t lanes, row, offsets;

  explicit Scratch(const IntegerChannelsTile& tile)
      : lanes(align64(static_cast<size_t>(tile.source_rows() * tile.positions() * kLanes) * sizeof(uint32_t))),
        // Blocks of kLanes numbers are transposed.
        row(align64(static_cast<size_t>(align_up(std::max(tile.numbers(), tile.held_numbers()), kLanes) * kLanes))),
        offsets(align64(static_cast<size_t>(tile.rows.outputs * tile.columns.outputs) * sizeof(int32_t))) {}
  size_t bytes() const { return lanes + row + offsets; }
};

}  // namespace

#if defined(ORTCONV_AVX512_VNNI)
extern const IntegerChannelsKernel k_integer_channels_avx512_vnni;
#endif

const IntegerChannelsKernel* get_integer_channels_kernel([[maybe_unused]] const ArchFlags& arch) {
#if defined(ORTCONV_AVX512_VNNI)
  if (arch.avx512_vnni) return &k_integer_channels_avx512_vnni;
#endif
  return nullptr;
}

int64_t IntegerChannelsTile::step() const {
  return windows() == 1 ? columns.stride : std::gcd(columns.stride, kTapsOfLane * columns.dilation);
}

bool IntegerChannelsWeights::takes(const ConvProblem& p) {
  return p.ndims <= 2 && p.oc > 0 && p.oc == p.g && is_integer_depthwise(p);
}

int64_t IntegerChannelsWeights::lanes(const ConvProblem& p) { return tap_rows(p) * windows_of_row(p); }

std::optional<IntegerChannelsWeights> IntegerChannelsWeights::make(const ConvProblem& problem,
                                                                   const IntegerConvFilter& filter) {
  if (!takes(problem)) return std::nullopt;
  IntegerChannelsWeights packed;
  const int64_t width = problem.ker[problem.ndims - 1], lanes_of_row = windows_of_row(problem);
  const int64_t taps = tap_rows(problem) * width, block = lanes(problem) * kLanes * kTapsOfLane;
  packed.weights_.resize(blocks_of(problem) * block);
  packed.sums_.resize(blocks_of(problem) * kLanes);
  for (int64_t m = 0; m < problem.oc; ++m) {
    for (int64_t t = 0; t < taps; ++t) {
      const int32_t weight = filter.w[m * taps + t] - filter.zero(m);
      if (weight < std::numeric_limits<int8_t>::min() || weight > std::numeric_limits<int8_t>::max()) {
        return std::nullopt;
      }
      const int64_t lane = t / width * lanes_of_row + t % width / kTapsOfLane;
      const int64_t at = (lane * kLanes + m % kLanes) * kTapsOfLane + t % width % kTapsOfLane;
      packed.weights_[m / kLanes * block + at] = static_cast<int8_t>(weight);
      packed.sums_[m] += weight;
    }
  }
  return packed;
}

bool IntegerChannelsWeights::supports(const ConvProblem& p) const {
  if (p.ic == 0 || std::any_of(p.src_size, p.src_size + p.ndims, [](int64_t size) { return size == 0; })) return false;
  // As floating-point numbers, which extents do not exceed.
  const double rows = static_cast<double>(tap_rows(p) - 1) * static_cast<double>(rows_of(p).dilation) + 1;
  const IntegerChannelsAxis columns = axis_of(p, p.ndims - 1);
  const double reach = static_cast<double>(kMostColumns) * static_cast<double>(columns.stride) +
                       static_cast<double>(windows_of_row(p) * kTapsOfLane) * static_cast<double>(columns.dilation);
  constexpr int64_t kMostOutputs = int64_t{1} << 26;  // of a channel, so that 16 are counted in 32 bits
  return product_of(p.dst_size, p.ndims) <= kMostOutputs && rows * reach * kLanes * sizeof(uint32_t) <= kMostBytes;
}

class IntegerChannelsDriver {
 public:
  IntegerChannelsDriver(const ConvProblem& problem, const IntegerChannelsWeights& weights,
                        const IntegerChannelsKernel& kernel, const IntegerResultOperands& operands)
      : p_(problem), weights_(weights), kernel_(kernel), operands_(operands), largest_(largest_tile(problem)) {}

  void run(void* memory, const Parallel& parallel) const {
    const Scratch scratch(largest_);
    const int64_t tile_rows = ceil_div(rows_of(p_).outputs, largest_.rows.outputs), blocks = blocks_of(p_);
    const int64_t items = p_.mb * blocks * tile_rows;
    const int64_t threads = std::min<int64_t>(parallel.threads, items);
    for_each(parallel, threads, [&](int64_t worker) {
      unsigned char* const own = static_cast<unsigned char*>(memory) + worker * static_cast<int64_t>(scratch.bytes());
      IntegerChannelsTile tile = largest_;
      tile.lanes = reinterpret_cast<uint32_t*>(own);
      tile.row = own + scratch.lanes;
      tile.offsets = reinterpret_cast<int32_t*>(own + scratch.lanes + scratch.row);
      const int64_t begin = items * worker / threads, end = items * (worker + 1) / threads;
      for (int64_t item = begin; item < end; ++item) {
        compute(item / tile_rows / blocks, item / tile_rows % blocks, item % tile_rows * largest_.rows.outputs, tile);
      }
    });
  }

 private:
  // A row of tiles of a block of channels of an image, from a row of outputs on.
  void compute(int64_t image, int64_t block, int64_t first, IntegerChannelsTile tile) const {
    const IntegerChannelsAxis rows = rows_of(p_), columns = axis_of(p_, p_.ndims - 1);
    const int64_t m = block * kLanes, pixels = rows.size * columns.size, outputs = rows.outputs * columns.outputs;
    tile.channels = std::min(kLanes, p_.g - m);
    tile.flip = operands_.x.is_signed ? 0x80 : 0;
    tile.zero = static_cast<uint8_t>(operands_.x_zero);
    const int32_t zero = operands_.x_zero + tile.flip;  // of the flipped bytes
    std::array<int32_t, kLanes> corrections = {};
    std::array<float, kLanes> scales = {}, biases = {}, factors = {}, addends = {};
    IntegerResultArgs result{};
    bool has_factors = false;
    for (int64_t i = 0; i < tile.channels; ++i) {
      result = integer_result_args(p_, operands_, m + i);
      scales[i] = result.scale, biases[i] = result.bias, factors[i] = result.factor, addends[i] = result.addend;
      has_factors = has_factors || (result.is_affine && (result.factor != 1 || result.addend != 0));
      corrections[i] =
          static_cast<int32_t>(-static_cast<uint32_t>(zero) * static_cast<uint32_t>(weights_.sums_[m + i]));
    }
    tile.is_plain = !has_factors && result.is_plain(operands_.type);
    tile.corrections = corrections.data(), tile.result = &result, tile.type = operands_.type;
    tile.scales = scales.data(), tile.biases = biases.data();
    tile.factors = factors.data(), tile.addends = addends.data();
    tile.weights = weights_.weights_.data() + block * tile.tap_rows * tile.windows() * kLanes * kTapsOfLane;
    tile.x = operands_.x.data + (image * p_.g + m) * pixels;
    tile.x_stride = pixels, tile.y_stride = outputs, tile.y_row = columns.outputs;
    tile.rows.first = first * rows.stride + rows.first;
    tile.rows.outputs = std::min(largest_.rows.outputs, rows.outputs - first);
    auto* const y = static_cast<unsigned char*>(operands_.y) + (image * p_.oc + m) * outputs + first * columns.outputs;
    for (int64_t column = 0; column < columns.outputs; column += largest_.columns.outputs) {
      tile.columns.first = column * columns.stride + columns.first;
      tile.columns.outputs = std::min(largest_.columns.outputs, columns.outputs - column);
      tile.y = y + column;
      if (operands_.biases != nullptr)
        tile.element_biases = operands_.biases + m * outputs + first * tile.y_row + column;
      kernel_.tile(tile);
    }
  }

  const ConvProblem& p_;
  const IntegerChannelsWeights& weights_;
  const IntegerChannelsKernel& kernel_;
  const IntegerResultOperands& operands_;
  const IntegerChannelsTile largest_;
};

void integer_channels_result(const ConvProblem& problem, const IntegerChannelsWeights& weights,
                             const IntegerChannelsKernel& kernel, const IntegerResultOperands& operands, void* scratch,
                             const Parallel& parallel) {
  IntegerChannelsDriver(problem, weights, kernel, operands).run(scratch, parallel);
}

size_t integer_channels_scratch_bytes(const ConvProblem& problem, int threads) {
  return Scratch(largest_tile(problem)).bytes() * static_cast<size_t>(threads);
}

}  // namespace ortconv::kernels

#include "cuda/plan/tiling.h"

#include <algorithm>

#include "base/math.h"
#include "cuda/plan/describe.h"

namespace ortconv::cuda {
namespace {

constexpr TileShape kTensorShapes[] = {
    {8, 128, 2, 2, 2}, {4, 128, 2, 2, 3}, {4, 64, 2, 2, 4}, {2, 128, 1, 4, 4}, {1, 128, 1, 4, 4}};
constexpr TileShape kFloatShapes[] = {
    {8, 128, 16, 16, 2}, {4, 128, 8, 32, 2}, {4, 64, 16, 16, 3}, {2, 128, 8, 32, 3}, {1, 256, 4, 64, 2}};
constexpr int64_t kMostSplits = 16;
constexpr int64_t kMostSumsBesideElements = 64 * 128;
constexpr int64_t kStepsOfSplit = 4;  // at least

// The number of phases of the last axis that the epilogue writes together for each channel.
int together_of(const TileShape& s, const ConvProblem& p, const Products& products) {
  const int64_t phases = products.phases[p.ndims - 1];
  const int64_t unit = products.uniform ? 1 : kPanelRows;
  const bool possible = phases <= 8 && (phases & (phases - 1)) == 0 && s.panels * kPanelRows % (unit * phases) == 0;
  return possible ? static_cast<int>(phases) : 1;
}

int64_t pipeline_bytes(bool tensor, const TileShape& s, int stages, int64_t element_bytes, int together,
                       bool dst_channels) {
  const int rows = s.panels * kPanelRows;
  const int stage = tensor ? tensor_stage_bytes(rows, s.columns) : float_stage_bytes(rows, s.columns);
  return std::max(stages * stage,
                  staging_bytes(static_cast<int>(element_bytes), rows, s.columns, together, dst_channels));
}

// Per multiprocessor and clock: multiply-adds, and bytes loaded from the L2 cache.
struct Rates {
  double products, bytes;
};

Rates rates_of(Unit unit, int64_t packed_bytes, const Device& device) {
  constexpr double kBytes = 28;
  const double newer = device.sm >= 80 ? 1 : 0.5;
  switch (unit) {
    case Unit::kTensor:
      return {2048 * newer / static_cast<double>(packed_bytes), kBytes};
    case Unit::kTf32:
      return {512 * newer, kBytes};
    case Unit::kFloat:
      break;
  }
  return {device.sm == 75 || device.sm == 80 ? 64.0 : 128.0, kBytes};
}

double clocks_of(Unit unit, int64_t packed_bytes, const TileShape& s, const Products& products, Source source,
                 int64_t tiles, int64_t splits, const Device& device) {
  constexpr double kStepLatency = 200, kTileLatency = 2000, kTotalLatency = 4000, kWrittenBytes = 16;
  constexpr double kElementClocks = 0.02;  // to copy an element from src to shared memory through registers
  const Rates rates = rates_of(unit, packed_bytes, device);
  const double rows = s.panels * kPanelRows, outputs = rows * s.columns;
  const auto summands = static_cast<double>(kChunks * kChunkBytes / packed_bytes);
  const int64_t slots = int64_t{device.multiprocessors} * s.blocks;
  const int64_t waves = ceil_div(tiles * splits, slots);
  const double resident =
      static_cast<double>(std::min<int64_t>(s.blocks, ceil_div(tiles * splits, device.multiprocessors)));
  const double step = std::max({resident * outputs * summands * products.density / rates.products,
                                resident * (rows + s.columns) * kChunks * kChunkBytes / rates.bytes, kStepLatency}) +
                      (source == Source::kElements ? resident * s.columns * summands * kElementClocks : 0);
  const auto steps = static_cast<double>(ceil_div(products.steps, splits));
  double result = static_cast<double>(waves) * (steps * step + kTileLatency + resident * outputs * 2 / kWrittenBytes);
  if (splits > 1) {
    const double partial = static_cast<double>(tiles) * static_cast<double>(splits) * outputs * 4;
    result += kTotalLatency + 2 * partial / (rates.bytes * std::min<double>(device.multiprocessors, tiles));
  }
  return result;
}

double gather_clocks(const ConvProblem& p, int64_t element_bytes, const Device& device) {
  constexpr double kLatency = 5000, kBytes = 12;  // of a multiprocessor in a clock
  double bytes = 2 * static_cast<double>(p.mb * p.ic) * static_cast<double>(element_bytes);
  for (int a = 0; a < p.ndims; ++a) bytes *= static_cast<double>(p.src_size[a]);
  return kLatency + bytes / (kBytes * device.multiprocessors);
}

bool writes_channels(const ConvProblem& p) { return p.dst_c == 1 && p.oc / p.g > 1; }

}  // namespace

std::vector<Tiling> possible_tilings(const Elements& elements, Unit unit, const ConvProblem& p,
                                     const Products& products, int64_t positions, const std::vector<Source>& sources,
                                     const Device& device) {
  const bool tensor = unit != Unit::kFloat;
  const auto src_bytes = static_cast<int64_t>(size_of(elements.x)),
             dst_bytes = static_cast<int64_t>(size_of(elements.y));
  const int64_t packed_bytes = packed_element_bytes(elements, unit);
  std::vector<Tiling> tilings;
  const auto add = [&](const TileShape& s, Source source) {
    const int rows = s.panels * kPanelRows;
    // Elements in flight through registers leave too few registers for the sums.
    if (tensor && source == Source::kElements && rows * s.columns > kMostSumsBesideElements) return;
    Tiling tiling{source, &s, tensor ? 4 : 3, 1, static_cast<uint32_t>(s.across * s.along * (tensor ? 32 : 1)), 0, 0};
    for (;; --tiling.stages) {
      if (tiling.stages < 2) return;
      const int64_t bytes =
          pipeline_bytes(tensor, s, tiling.stages, dst_bytes, together_of(s, p, products), writes_channels(p)) +
          tables_bytes(p.ndims, rows, s.columns, elements.are_integers(), elements.are_quantized());
      tiling.shared_bytes = static_cast<size_t>(bytes);
      if (tiling.shared_bytes <= device.shared_bytes) break;
    }
    const int64_t tiles = ceil_div(products.panels, s.panels) * ceil_div(positions, s.columns) * products.lists * p.g;
    for (; tiling.splits <= kMostSplits; tiling.splits *= 2) {
      if (tiling.splits > 1 && products.steps / tiling.splits < kStepsOfSplit) break;
      tiling.clocks =
          clocks_of(unit, packed_bytes, s, products, tensor ? source : Source::kChunks, tiles, tiling.splits, device);
      if (source == Source::kGathered) tiling.clocks += gather_clocks(p, src_bytes, device);
      tilings.push_back(tiling);
    }
  };
  for (const Source source : sources) {
    if (tensor) {
      for (const TileShape& s : kTensorShapes) add(s, source);
    } else {
      for (const TileShape& s : kFloatShapes) add(s, source);
    }
  }
  return tilings;
}

ProgramKey program_of(const Elements& elements, Unit unit, const ConvProblem& p, const Products& products,
                      const Tiling& tiling, bool total) {
  const TileShape& s = *tiling.shape;
  std::vector<std::string> options = {option("ACTIVATE", !p.activation.is_identity()),
                                      option("AXES", p.ndims),
                                      option("BLOCKS", s.blocks),
                                      option("COLUMNS", s.columns),
                                      option("DST_CHANNELS", writes_channels(p)),
                                      option("PANELS", s.panels),
                                      option("RAGGED", !products.uniform),
                                      option("STAGES", tiling.stages),
                                      option("TOGETHER", together_of(s, p, products)),
                                      option("TOTAL", total)};
  const bool tensor = unit != Unit::kFloat;
  if (tensor) {
    const int64_t step_elements = kChunks * products.chunk_elements;
    const bool by_elements = tiling.source == Source::kElements;
    options.push_back(option("SRC_CHUNKS", !by_elements));
    options.push_back(option("WHOLE_STEPS", by_elements && (p.ic / p.g) % step_elements == 0));
    options.push_back(option("TF32", unit == Unit::kTf32));
    options.push_back(option("WARPS_M", s.across));
    options.push_back(option("WARPS_N", s.along));
  } else {
    options.push_back(option("ROWS_OF_THREADS", s.across));
    options.push_back(option("COLUMNS_OF_THREADS", s.along));
    options.push_back(option("SRC_CHANNELS", p.src_c == 1 && p.ic / p.g > 1));
    options.push_back(option("SRC_CHUNKS", 0));
  }
  return program_for(tensor ? "tensor_gemm" : "float_gemm", elements, options);
}

}  // namespace ortconv::cuda

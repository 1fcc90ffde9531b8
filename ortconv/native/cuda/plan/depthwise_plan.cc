#include "cuda/plan/depthwise_plan.h"

#include <algorithm>
#include <cstddef>

#include "base/math.h"
#include "cuda/plan/describe.h"

namespace ortconv::cuda {
namespace {

constexpr int64_t kMostChannels = 2;  // of a group, on either side
constexpr int64_t kMostWeightBytes = 48 << 10;
constexpr int64_t kMostCoordinate = int64_t{1} << 28;
constexpr int64_t kMostPhases = 8;     // computed by a thread at once
constexpr int64_t kMostHeldTaps = 16;  // of a row, for which a thread holds the weights in registers
constexpr int64_t kLanes = 32, kThreads = 128, kWarps = kThreads / kLanes;
constexpr int64_t kBlocksPerMultiprocessor = 16;
constexpr int64_t kSegmentPositions = 4 * kLanes;  // where lanes are positions
constexpr int64_t kSerialPositions = 16;           // where they are channels
constexpr int64_t kFewestLanes = 8;                // of a row
constexpr int64_t kFewestWarps = 16;               // of a multiprocessor, that rows are spread over

int64_t count_taps(const ConvProblem& p) {
  int64_t taps = 1;
  for (int a = 0; a < p.ndims; ++a) taps *= std::min(p.ker[a], kMostCoordinate);
  return taps;
}

// Lanes per row: leaves as few lanes idle as possible while there are enough warps.
int lanes_of_row(int64_t positions, int64_t together, int64_t rows, const Device& device) {
  const auto busy_lanes = [&](int64_t lanes) { return ceil_div(positions, lanes * together) * lanes; };
  int64_t best = kLanes;
  for (int64_t lanes = kLanes / 2; lanes >= kFewestLanes && positions <= kSegmentPositions; lanes /= 2) {
    if (rows / (kLanes / lanes) < kFewestWarps * device.multiprocessors) break;
    if (busy_lanes(lanes) < busy_lanes(best)) best = lanes;
  }
  return static_cast<int>(best);
}

}  // namespace

bool is_depthwise(kernels::Op op, const ConvProblem& p) {
  if (p.ic == 0 || p.oc == 0 || p.g == 1 || p.ic / p.g > kMostChannels || p.oc / p.g > kMostChannels) return false;
  double bytes = static_cast<double>(p.ic / p.g * kLanes) * sizeof(float);
  for (int a = 0; a < p.ndims; ++a) {
    // Taps k of one phase are then a stride apart.
    if (op == kernels::Op::kConvTranspose && p.stride[a] != 1 && p.dilation[a] != 1) return false;
    if (p.stride[a] > kMostCoordinate || p.dilation[a] > kMostCoordinate / p.ker[a]) return false;
    bytes *= static_cast<double>(p.ker[a]);
  }
  return bytes <= kMostWeightBytes;
}

std::optional<Launch> plan_depthwise(const Elements& elements, kernels::Op op, const ConvProblem& p,
                                     const Device& device, const Terms& terms) {
  const bool transposed = op == kernels::Op::kConvTranspose;
  const int last = p.ndims - 1;
  Depthwise params{};
  params.problem = describe(elements, op, p);
  int64_t rows = 1;
  for (int a = 0; a < p.ndims; ++a) {
    for (int64_t number : {p.src_size[a], p.dst_size[a], p.pad[a], p.stride[a] * p.dst_size[a]}) {
      if (number > kMostCoordinate) return std::nullopt;
    }
    params.by_dst_size[a] = divisor(p.dst_size[a]);
    params.by_stride[a] = divisor(p.stride[a]);
    params.by_dilation[a] = divisor(p.dilation[a]);
    if (a < last) rows *= p.dst_size[a];
    if (rows > kMostCoordinate) return std::nullopt;
  }
  const int64_t first = transposed ? p.pad[last] / p.stride[last] : 0;
  const int64_t end = transposed ? (p.dst_size[last] - 1 + p.pad[last]) / p.stride[last] + 1 : p.dst_size[last];
  const bool dst_channels = p.dst_c == 1 && p.src_c == 1;
  const int64_t tile_channels = dst_channels ? kLanes : 1;
  params.position_first = static_cast<int>(first);
  params.positions = static_cast<int>(end - first);
  const int64_t all_phases = transposed ? p.stride[last] : 1, phases = std::min(all_phases, kMostPhases);
  const bool held = p.ker[last] <= kMostHeldTaps && all_phases == phases;
  const bool unit = held && p.dilation[last] == 1 && (p.src_x[last] == 1 || p.src_size[last] == 1);
  const int64_t together = !held ? 1 : phases <= 4 ? 4 : 2;
  params.channel_tiles = static_cast<int>(ceil_div(p.oc, tile_channels));
  params.taps = static_cast<int>(count_taps(p));

  const int64_t tiles = p.mb * params.channel_tiles;
  if (p.mb > kMostCoordinate || p.oc > kMostCoordinate || tiles > kMostCoordinate) return std::nullopt;
  params.rows = static_cast<int>(rows);
  params.row_lanes = lanes_of_row(params.positions, together, rows * tiles, device);
  params.segment_positions = dst_channels ? kSerialPositions : kSegmentPositions;
  const int64_t segments = ceil_div(params.positions, params.segment_positions);
  params.by_segments = divisor(segments);
  const int64_t units = ceil_div(rows, dst_channels ? 1 : kLanes / params.row_lanes) * segments;
  if (units > kMostCoordinate) return std::nullopt;
  params.units = static_cast<int>(units);
  const int64_t enough = ceil_div(device.multiprocessors * kBlocksPerMultiprocessor, tiles);
  params.blocks = static_cast<int>(std::clamp<int64_t>(ceil_div(params.units, kWarps), 1, enough));

  Launch launch;
  launch.program = program_for("depthwise", elements,
                               {option("ACTIVATE", !p.activation.is_identity()), option("AXES", p.ndims),
                                option("DST_CHANNELS", dst_channels), option("KER", held ? p.ker[last] : 0),
                                option("PHASES", phases), option("TRANSPOSED", transposed), option("UNIT", unit)});
  launch.function = "depthwise";
  launch.grid[0] = static_cast<uint32_t>(tiles * params.blocks);
  launch.block[0] = kThreads;
  launch.shared_bytes = static_cast<size_t>(params.taps * (p.ic / p.g) * tile_channels) * sizeof(float);
  set_params(params, &launch);
  add_problem_pointers(offsetof(Depthwise, problem), elements, terms, &launch);
  return launch;
}

}  // namespace ortconv::cuda

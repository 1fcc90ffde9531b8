#include "cuda/plan/products.h"

#include <algorithm>

#include "base/math.h"

namespace ortconv::cuda {
namespace {

constexpr int64_t kMostExtent = 1 << 24;  // of a kernel, with dilation
constexpr int64_t kMostStride = 1 << 10;
constexpr int64_t kMostPhases = 1 << 14;
constexpr int64_t kMostRaggedPhases = 32;  // of the last axis: bits of Shift::phases
constexpr int64_t kMostShifts = 1 << 14;
constexpr int64_t kMostChannels = 1 << 24;
constexpr int64_t kMostBlocks = int64_t{1} << 40;

// The shifts of one axis: of all phases together, and the most of any phase.
struct AxisShifts {
  int64_t phases = 1, all = 0, most_of_phase = 0;
  bool uniform = true;
};

AxisShifts shifts_of(kernels::Op op, int64_t ker, int64_t stride, int64_t dilation) {
  AxisShifts result;
  if (op == kernels::Op::kConv) {
    result.all = result.most_of_phase = ker;
    return result;
  }
  result.phases = stride;
  std::vector<int64_t> of_phase(stride, 0);
  int64_t last = -1;
  for (int64_t k = 0; k < ker; ++k) {
    const int64_t q = k * dilation / stride;
    result.all += q != last;  // q ascends
    last = q;
    ++of_phase[k * dilation % stride];
  }
  result.most_of_phase = *std::max_element(of_phase.begin(), of_phase.end());
  result.uniform = result.all * stride == ker;
  return result;
}

}  // namespace

Unit unit_of(const Elements& elements, const Device& device, const Options& options) {
  if (elements.are_integers()) return Unit::kTensor;
  if (elements.y == DataType::kFloat) return options.tf32 && device.sm >= 80 ? Unit::kTf32 : Unit::kFloat;
  return elements.y == DataType::kFloat16 || device.sm >= 80 ? Unit::kTensor : Unit::kFloat;
}

std::optional<Products> Products::make(const Elements& elements, Unit unit, kernels::Op op, const ConvProblem& p) {
  if (p.ic == 0 || p.oc == 0) return std::nullopt;
  const int64_t icg = p.ic / p.g, ocg = p.oc / p.g;
  if (icg > kMostChannels || ocg > kMostChannels || p.g > kMostChannels) return std::nullopt;
  Products result;
  result.uniform = true;
  AxisShifts axes[kMaxSpatial];
  int64_t phases = 1;
  double taps = 1;
  for (int a = 0; a < p.ndims; ++a) {
    if (p.stride[a] > kMostStride || p.ker[a] > kMostShifts || p.dilation[a] > kMostExtent / p.ker[a])
      return std::nullopt;
    axes[a] = shifts_of(op, p.ker[a], p.stride[a], p.dilation[a]);
    result.phases[a] = axes[a].phases;
    result.uniform = result.uniform && axes[a].uniform;
    phases *= axes[a].phases;
    taps *= static_cast<double>(p.ker[a]);
    if (phases > kMostPhases) return std::nullopt;
  }
  const int last = p.ndims - 1;
  if (!result.uniform && axes[last].phases > kMostRaggedPhases) return std::nullopt;
  result.shifts = 1;
  for (int a = 0; a < p.ndims; ++a) {
    result.shifts *= result.uniform || a == last ? axes[a].all : axes[a].most_of_phase;
    if (result.shifts > kMostShifts) return std::nullopt;
  }
  const int64_t last_phases = axes[last].phases;
  result.density = taps / static_cast<double>(phases * result.shifts);
  result.lists = result.uniform ? 1 : phases / last_phases;
  result.panels = result.uniform ? ceil_div(phases * ocg, kPanelRows) : ceil_div(ocg, kPanelRows) * last_phases;
  result.chunk_elements = kChunkBytes / packed_element_bytes(elements, unit);
  result.chunks = ceil_div(icg, result.chunk_elements);
  if (!result.uniform) result.chunks = align_up(result.chunks, kChunks);
  result.steps = ceil_div(result.shifts * result.chunks, kChunks);
  constexpr int64_t kMostSummands = 1 << 30, kMostPanels = 1 << 26;
  if (result.shifts * result.chunks > kMostSummands) return std::nullopt;
  if (result.panels > kMostPanels || result.lists * p.g > kMostPanels / result.panels) return std::nullopt;
  if (static_cast<double>(p.g * result.lists * result.panels) * static_cast<double>(result.steps) > kMostBlocks) {
    return std::nullopt;
  }
  result.row_sums = elements.are_integers() ? p.g * result.lists * result.panels * kPanelRows : 0;
  return result;
}

int64_t Products::row_sums_offset() const {
  return static_cast<int64_t>(sizeof(PackedHeader)) + lists * shifts * static_cast<int64_t>(sizeof(Shift));
}

int64_t Products::weights_offset() const { return align_up(row_sums_offset() + row_sums * 4, kBufferAlignment); }

int64_t Products::packed_bytes(const ConvProblem& problem) const {
  return weights_offset() + problem.g * lists * panels * steps * kBlockBytes;
}

}  // namespace ortconv::cuda

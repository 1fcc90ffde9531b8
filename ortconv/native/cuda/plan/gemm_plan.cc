#include "cuda/plan/gemm_plan.h"

#include <algorithm>
#include <cstddef>
#include <optional>

#include "base/math.h"
#include "cuda/plan/describe.h"
#include "cuda/plan/products.h"

namespace ortconv::cuda {
namespace {

constexpr uint32_t kThreads = 256;  // of the packing and copying kernels
constexpr int64_t kMostInt = (int64_t{1} << 30) - 1;
constexpr int64_t kMostCoordinate = int64_t{1} << 28;
constexpr int64_t kGatherPositions = 64, kGatherChunks = 4;
constexpr int64_t kGatherRowWords = 17;

// Whether the channels of every position are contiguous and fill whole chunks.
bool in_chunks(const ConvProblem& p, int64_t chunk_elements) {
  const auto whole = [&](int64_t stride) { return stride % chunk_elements == 0; };
  bool all = p.src_c == 1 && whole(p.ic / p.g) && (p.mb == 1 || whole(p.src_n));
  for (int a = 0; a < p.ndims; ++a) all = all && (p.src_size[a] == 1 || whole(p.src_x[a]));
  return all;
}

// The positions of dst in units of a transposed convolution's stride: from `first` to before `end`.
struct PositionRange {
  int64_t first, end;
};
PositionRange transposed_positions(const ConvProblem& p, int axis) {
  return {floor_div(p.pad[axis], p.stride[axis]), floor_div(p.dst_size[axis] - 1 + p.pad[axis], p.stride[axis]) + 1};
}

// What the GEMM reads of src on each axis: `size` positions, the first `before` of which are padding. A negative
// `before` leaves out as many positions of src.
struct SourceExtent {
  int64_t size[kMaxSpatial], before[kMaxSpatial];
};

// All positions that are read, also those outside src.
SourceExtent with_padding(kernels::Op op, const ConvProblem& p) {
  SourceExtent result{};
  for (int a = 0; a < p.ndims; ++a) {
    const int64_t reach = (p.ker[a] - 1) * p.dilation[a];
    if (op == kernels::Op::kConvTranspose) {
      const PositionRange range = transposed_positions(p, a);
      const int64_t shifts = reach / p.stride[a];  // the last one
      result.size[a] = range.end - range.first + shifts;
      result.before[a] = shifts - range.first;
    } else {
      result.size[a] = (p.dst_size[a] - 1) * p.stride[a] + reach + 1;
      result.before[a] = p.pad[a];
    }
  }
  return result;
}

SourceExtent without_padding(const ConvProblem& p) {
  SourceExtent result{};
  std::copy(p.src_size, p.src_size + p.ndims, result.size);
  return result;
}

// Whether padded src is so much larger than src and dst that copying it does not pay.
bool is_mostly_padding(const ConvProblem& p, const SourceExtent& padded) {
  constexpr double kTimes = 4, kPositions = 1 << 12;
  double src = 1, dst = 1, all = 1;
  for (int a = 0; a < p.ndims; ++a) {
    src *= static_cast<double>(p.src_size[a]);
    dst *= static_cast<double>(p.dst_size[a]);
    all *= static_cast<double>(padded.size[a]);
  }
  return all > kTimes * (src + dst) + kPositions;
}

// The launches that pack W into `packed` at `offset`.
std::vector<Launch> pack(const Elements& elements, Unit unit, kernels::Op op, const ConvProblem& p,
                         const Products& products, const Device& device, Buffer packed, size_t offset) {
  const Problem problem = describe(elements, op, p);
  Pack params{};
  params.weights = products.weights_offset();
  params.row_sums = products.row_sums_offset();
  params.quantization = problem.quantization;
  params.chunks_total = p.g * products.lists * products.panels * products.steps * kPanelRows * kChunks;
  params.wei_g = problem.wei_g;
  params.wei_ic = problem.wei_ic;
  params.wei_oc = problem.wei_oc;
  params.groups = static_cast<int>(p.g);
  params.icg = static_cast<int>(problem.icg);
  params.ocg = static_cast<int>(problem.ocg);
  params.ndims = p.ndims;
  const bool transposed = op == kernels::Op::kConvTranspose;
  for (int a = 0; a < p.ndims; ++a) {
    params.wei_step[a] = p.wei_x[a];
    params.ker[a] = static_cast<int>(p.ker[a]);
    params.stride[a] = static_cast<int>(transposed ? p.stride[a] : 1);
    params.dilation[a] = static_cast<int>(transposed ? p.dilation[a] : 1);
    params.delta[a] = static_cast<int>(transposed ? -1 : p.dilation[a]);
  }
  params.uniform = products.uniform;
  params.lists = static_cast<int>(products.lists);
  params.panels = static_cast<int>(products.panels);
  params.shifts = static_cast<int>(products.shifts);
  params.chunks = static_cast<int>(products.chunks);
  params.steps = static_cast<int>(products.steps);

  std::vector<Launch> launches(2);
  const int64_t work[] = {products.lists * products.shifts, params.chunks_total};
  for (int i = 0; i < 2; ++i) {
    Launch& launch = launches[i];
    // The type of X does not matter.
    launch.program = program_for(
        "pack", elements.are_integers() ? Elements(DataType::kUint8, elements.w) : elements,
        {option("ACTIVATE", 0), option("FLOATS", unit == Unit::kFloat), option("TF32", unit == Unit::kTf32)});
    launch.function = i == 0 ? "pack_shifts" : "pack_weights";
    launch.grid[0] = static_cast<uint32_t>(std::min(ceil_div(work[i], kThreads), int64_t{16} * device.multiprocessors));
    launch.block[0] = kThreads;
    set_params(params, &launch);
    launch.pointers = {{offsetof(Pack, wei), Buffer::kW}, {offsetof(Pack, packed), packed, offset}};
    if (elements.are_integers()) {
      launch.pointers.push_back({offsetof(Pack, quantization) + offsetof(Quantization, w_zero), Buffer::kZeros});
    }
  }
  return launches;
}

// The launch that copies src to a channels-last layout in scratch.
Launch gather(const Elements& elements, const ConvProblem& p, const SourceExtent& copy, int64_t src_chunks,
              size_t offset) {
  Gather params{};
  params.src_n = p.src_n;
  params.src_c = p.src_c;
  params.positions = p.mb;
  for (int a = 0; a < p.ndims; ++a) {
    params.src_step[a] = p.src_x[a];
    params.size[a] = copy.size[a];
    params.src_size[a] = p.src_size[a];
    params.pad[a] = copy.before[a];
    params.positions *= copy.size[a];
  }
  params.icg = static_cast<int>(p.ic / p.g);
  params.groups = static_cast<int>(p.g);
  params.chunks = static_cast<int>(src_chunks);
  params.ndims = p.ndims;
  Launch launch;
  // The copy does not depend on the sign of integers.
  launch.program =
      program_for("gather", elements.are_integers() ? Elements(DataType::kUint8, DataType::kUint8) : elements,
                  {option("ACTIVATE", 0)});
  launch.function = "gather";
  launch.grid[0] = static_cast<uint32_t>(ceil_div(params.positions, kGatherPositions));
  launch.grid[1] = static_cast<uint32_t>(std::min<int64_t>(ceil_div(src_chunks, kGatherChunks) * p.g, 0xffff));
  launch.block[0] = kThreads;
  launch.shared_bytes = kGatherPositions * kGatherRowWords * 4;
  set_params(params, &launch);
  launch.pointers = {{offsetof(Gather, src), Buffer::kX}, {offsetof(Gather, dst), Buffer::kScratch, offset}};
  if (elements.are_integers()) launch.pointers.push_back({offsetof(Gather, x_zero), Buffer::kXZero});
  return launch;
}

// Gemm without the problem, the tiles and the strides of src; none where sizes are too large.
std::optional<Gemm> describe_gemm(kernels::Op op, const ConvProblem& p, const SourceExtent& src,
                                  const Products& products) {
  Gemm gemm{};
  gemm.weights = products.weights_offset();
  gemm.row_sums = products.row_sums_offset();
  int64_t positions = p.mb;
  const bool transposed = op == kernels::Op::kConvTranspose;
  for (int a = 0; a < p.ndims; ++a) {
    const PositionRange range = transposed ? transposed_positions(p, a) : PositionRange{0, p.dst_size[a]};
    const int64_t first = range.first, count = range.end - range.first;
    for (int64_t number : {src.size[a], p.dst_size[a], p.pad[a], p.stride[a] * count, p.dilation[a] * p.ker[a]}) {
      if (number > kMostCoordinate) return std::nullopt;
    }
    PositionAxis& axis = gemm.axis[a];
    axis.count = static_cast<int>(count);
    axis.src_size = static_cast<int>(src.size[a]);
    axis.src_first = static_cast<int>(src.before[a] + (transposed ? first : -p.pad[a]));
    axis.src_stride = static_cast<int>(transposed ? 1 : p.stride[a]);
    axis.dst_first = static_cast<int>(transposed ? first * p.stride[a] - p.pad[a] : 0);
    axis.dst_stride = static_cast<int>(transposed ? p.stride[a] : 1);
    axis.phases = static_cast<int>(products.phases[a]);
    axis.by_count = divisor(count);
    axis.by_phases = divisor(axis.phases);
    positions *= count;
    if (positions > kMostInt || p.mb > kMostInt) return std::nullopt;
  }
  gemm.positions = static_cast<int>(positions);
  gemm.chunks = static_cast<int>(products.chunks);
  gemm.shifts_of_step = kChunks / gemm.chunks;
  gemm.chunks_of_step = kChunks % gemm.chunks;
  gemm.shifts = static_cast<int>(products.shifts);
  gemm.steps = static_cast<int>(products.steps);
  gemm.panels = static_cast<int>(products.panels);
  gemm.lists = static_cast<int>(products.lists);
  gemm.groups = static_cast<int>(p.g);
  gemm.uniform = products.uniform;
  gemm.src_chunks = static_cast<int>(ceil_div(p.ic / p.g, products.chunk_elements));
  return gemm;
}

// The tensor's own strides of src, in units of `unit` elements.
void set_src_strides(const ConvProblem& p, int64_t unit, Gemm* gemm) {
  gemm->src_n = p.mb == 1 ? 0 : p.src_n / unit;
  gemm->src_g = p.src_c * (p.ic / p.g) / unit;
  gemm->src_c = unit == 1 ? p.src_c : 0;
  for (int a = 0; a < p.ndims; ++a) gemm->axis[a].src_step = p.src_size[a] == 1 ? 0 : p.src_x[a] / unit;
}

// The strides of the channels-last copy that `gather` writes, in chunks.
void set_gathered_strides(const ConvProblem& p, Gemm* gemm) {
  gemm->src_g = gemm->src_chunks;
  gemm->src_c = 0;
  int64_t step = p.g * gemm->src_chunks;
  for (int a = p.ndims - 1; a >= 0; --a) {
    gemm->axis[a].src_step = step;
    step *= gemm->axis[a].src_size;
  }
  gemm->src_n = step;
}

// Whether every offset that the kernel computes, including those outside src, fits in an int.
bool offsets_fit(const ConvProblem& p, const Gemm& gemm) {
  double reach = static_cast<double>(p.mb) * static_cast<double>(gemm.src_n) +
                 static_cast<double>(p.g) * static_cast<double>(gemm.src_g) +
                 static_cast<double>(p.ic) * static_cast<double>(gemm.src_c);
  for (int a = 0; a < p.ndims; ++a) {
    const PositionAxis& axis = gemm.axis[a];
    const double farthest = std::abs(axis.src_first) + static_cast<double>(axis.count) * axis.src_stride +
                            static_cast<double>(p.ker[a] * p.dilation[a]);
    reach += farthest * static_cast<double>(axis.src_step);
  }
  return reach < static_cast<double>(kMostInt);
}

// Sets the strides of src for this source; false where offsets do not fit.
bool set_source(const ConvProblem& p, const Products& products, Source source, Gemm* gemm) {
  switch (source) {
    case Source::kChunks:
      set_src_strides(p, products.chunk_elements, gemm);
      break;
    case Source::kElements:
      set_src_strides(p, 1, gemm);
      break;
    case Source::kGathered:
      set_gathered_strides(p, gemm);
      break;
  }
  return offsets_fit(p, *gemm);
}

}  // namespace

WeightPlan plan_gemm_weights(const Elements& elements, kernels::Op op, const ConvProblem& problem, const Device& device,
                             const Options& options) {
  const Unit unit = unit_of(elements, device, options);
  const auto products = Products::make(elements, unit, op, problem);
  if (!products) return {};
  return {static_cast<size_t>(products->packed_bytes(problem)),
          pack(elements, unit, op, problem, *products, device, Buffer::kPacked, 0)};
}

const Tiling& quickest(const std::vector<Tiling>& tilings) {
  return *std::min_element(tilings.begin(), tilings.end(),
                           [](const Tiling& a, const Tiling& b) { return a.clocks < b.clocks; });
}

bool plan_gemm(const Elements& elements, kernels::Op op, const ConvProblem& problem, const Device& device,
               const Options& options, bool packed, const Terms& terms, Plan* plan, const ChooseTiling& choose) {
  const Unit unit = unit_of(elements, device, options);
  const auto products = Products::make(elements, unit, op, problem);
  if (!products || std::count(problem.src_size, problem.src_size + problem.ndims, 0) != 0) return false;
  const bool integers = elements.are_integers();
  const SourceExtent src = integers ? with_padding(op, problem) : without_padding(problem);
  if (integers && is_mostly_padding(problem, src)) return false;
  std::optional<Gemm> gemm = describe_gemm(op, problem, src, *products);
  if (!gemm) return false;
  gemm->problem = describe(elements, op, problem);

  std::vector<Source> sources;
  for (Source source : {Source::kChunks, Source::kElements, Source::kGathered}) {
    const bool floats = unit == Unit::kFloat;
    if (source == Source::kChunks && (floats || !in_chunks(problem, products->chunk_elements))) continue;
    if (source != Source::kChunks && !sources.empty() && sources[0] == Source::kChunks) continue;
    if (source == Source::kGathered && floats) continue;
    if (source != Source::kGathered && integers) continue;
    Gemm tried = *gemm;
    if (set_source(problem, *products, source, &tried) || floats) sources.push_back(source);
  }
  const std::vector<Tiling> tilings =
      possible_tilings(elements, unit, problem, *products, gemm->positions, sources, device);
  if (tilings.empty()) return false;
  const Tiling& tiling = choose(tilings);
  set_source(problem, *products, tiling.source, &*gemm);

  Plan result;
  const auto scratch = [&result](int64_t bytes) {
    const size_t offset = result.scratch_bytes;
    result.scratch_bytes += static_cast<size_t>(align_up(bytes, kBufferAlignment));
    return offset;
  };
  Pointer packed_pointer = {offsetof(Gemm, packed), Buffer::kPacked};
  if (!packed) {
    packed_pointer = {offsetof(Gemm, packed), Buffer::kScratch, scratch(products->packed_bytes(problem))};
    result.launches = pack(elements, unit, op, problem, *products, device, Buffer::kScratch, packed_pointer.offset);
  }
  Pointer src_pointer = {offsetof(Gemm, src), Buffer::kX};
  if (tiling.source == Source::kGathered) {
    const int64_t bytes = problem.mb * gemm->src_n * kChunkBytes;
    src_pointer = {offsetof(Gemm, src), Buffer::kScratch, scratch(bytes)};
    result.launches.push_back(gather(elements, problem, src, gemm->src_chunks, src_pointer.offset));
  }

  gemm->tiles_m = static_cast<int>(ceil_div(products->panels, tiling.shape->panels));
  gemm->tiles_n = static_cast<int>(ceil_div(gemm->positions, tiling.shape->columns));
  const int64_t tiles = int64_t{gemm->tiles_m} * gemm->tiles_n * gemm->lists * gemm->groups;
  gemm->splits = static_cast<int>(tiling.splits);
  if (tiles * tiling.splits > kMostInt) return false;
  gemm->by_tiles = divisor(tiles);
  gemm->by_tiles_m = divisor(gemm->tiles_m);
  gemm->by_tiles_n = divisor(gemm->tiles_n);
  gemm->by_lists = divisor(gemm->lists);
  gemm->by_channels = divisor(problem.oc / problem.g);

  Launch launch;
  launch.program = program_of(elements, unit, problem, *products, tiling, false);
  launch.function = "gemm";
  launch.grid[0] = static_cast<uint32_t>(tiles * tiling.splits);
  launch.block[0] = tiling.threads;
  launch.shared_bytes = tiling.shared_bytes;
  launch.pointers = {src_pointer, packed_pointer};
  if (tiling.splits > 1) {
    const int64_t bytes = tiles * tiling.splits * tiling.shape->panels * kPanelRows * tiling.shape->columns * 4;
    launch.pointers.push_back({offsetof(Gemm, partial), Buffer::kScratch, scratch(bytes)});
  }
  set_params(*gemm, &launch);
  add_problem_pointers(offsetof(Gemm, problem), elements, terms, &launch);
  result.launches.push_back(launch);
  if (tiling.splits > 1) {
    launch.program = program_of(elements, unit, problem, *products, tiling, true);
    launch.function = "gemm_total";
    launch.grid[0] = static_cast<uint32_t>(tiles);
    result.launches.push_back(launch);
  }
  *plan = result;
  return true;
}

}  // namespace ortconv::cuda

#include "cuda/plan/fourier_plan.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "base/math.h"
#include "cuda/params/fourier.h"
#include "cuda/plan/describe.h"

namespace ortconv::cuda {
namespace {

constexpr int64_t kMostBlocks = 0x7fffffff;
// Shared memory of a block that is not meant to have a multiprocessor alone.
constexpr int64_t kBlockBytes = 48 << 10;
// Elements that keep the threads of a block busy, and columns after which more do not help.
constexpr int64_t kBlockElements = 2048, kMostColumns = 32;
// Of transforms in several passes, so many bytes of numbers are under way at once.
constexpr int64_t kScratchBytes = 128 << 20;

int element_of_reals(DataType dtype) { return dtype == DataType::kDouble ? 4 : element_of(dtype); }

// The pitch of columns in shared memory: odd, so that accesses across columns have no bank conflicts.
int64_t pitch_of(int64_t length, int64_t columns) { return columns == 1 ? length : length | 1; }

// Where the first pass loads from, or where the last one stores to.
struct Place {
  int kind;
  Buffer buffer;
  size_t offset;
  bool by_columns;
};

// All transforms of a run.
struct Transforms {
  DataType dtype;
  const FourierSteps& steps;
  const Device& device;
  FourierPass common;  // what all passes share
  int64_t rows;
  bool is_inverse;
  int64_t given, wanted;  // elements of each
  Place source, target;
  Buffer sines;
};

class Planner {
 public:
  // Scratch memory from `scratch` on is free.
  Planner(const Transforms& all, size_t scratch) : all_(all), scratch_(scratch) {}

  Plan plan() {
    const int64_t row_bytes = all_.steps.fft_length() * all_.steps.complex_bytes();
    const bool has_scratch = all_.steps.passes().size() > 1;
    const int64_t at_once = has_scratch ? std::clamp<int64_t>(kScratchBytes / row_bytes, 1, all_.rows) : all_.rows;
    half_bytes_ = has_scratch ? static_cast<size_t>(align_up(at_once * row_bytes, kBufferAlignment)) : 0;
    plan_.scratch_bytes = scratch_ + 2 * half_bytes_;
    for (int64_t first = 0; first < all_.rows; first += at_once) add_rows(first, std::min(at_once, all_.rows - first));
    return plan_;
  }

 private:
  // A pass of a transform, and the places between which it is.
  struct Step {
    FourierPass params;
    size_t pass;
    bool has_before = false, has_middle = false, has_after = false;
    size_t after = 0;  // in the tables
    Place source{}, target{};
  };

  void add_rows(int64_t first, int64_t rows) {
    const FourierSteps& steps = all_.steps;
    std::vector<Step> chain = passes(first, rows);
    if (steps.has_chirp() && chain.size() > 1) {
      // The second transform of the convolution.
      Step& end = chain.back();
      end.has_after = true, end.after = steps.chirp_spectrum();
      end.params.swap_storing = 1;
      for (const Step& step : passes(first, rows)) chain.push_back(step);
    }
    Step &begin = chain.front(), &end = chain.back();
    begin.source = all_.source;
    begin.params.given = all_.given;
    begin.params.swap_loaded = all_.is_inverse;
    begin.params.load_by_columns = begin.params.columns > 1 || all_.source.by_columns;
    end.target = all_.target;
    end.params.wanted = all_.wanted;
    end.params.swap_storing = all_.is_inverse;
    end.params.store_by_columns = end.params.columns > 1 || all_.target.by_columns;
    if (steps.has_chirp()) {
      begin.has_before = end.has_after = true;
      begin.has_middle = chain.size() == 1;
      end.after = steps.chirp();
      end.params.swap_results = 1;
    }
    for (size_t i = 0; i < chain.size(); ++i) {
      if (i > 0) chain[i].source = scratch(i - 1);
      if (i + 1 < chain.size()) chain[i].target = scratch(i);
      add_launch(chain[i]);
    }
  }

  // The passes of one transform, before it is decided where the first loads and the last stores.
  std::vector<Step> passes(int64_t first, int64_t rows) const {
    const std::vector<int64_t>& lengths = all_.steps.passes();
    const int64_t total = all_.steps.fft_length();
    std::vector<Step> chain;
    int64_t stride = 1;
    for (size_t i = 0; i < lengths.size(); ++i) {
      Step step{all_.common, i};
      FourierPass& p = step.params;
      p.first = first;
      p.rows = rows;
      p.length = static_cast<int>(lengths[i]);
      p.columns = total / lengths[i];
      p.stride = stride;
      p.given = p.wanted = total;
      p.load_by_columns = 1;
      p.store_by_columns = stride > 1;
      stride *= lengths[i];
      chain.push_back(step);
    }
    return chain;
  }

  Place scratch(size_t turn) const {
    return {kComplexNumbers, Buffer::kScratch, scratch_ + turn % 2 * half_bytes_, true};
  }

  void add_launch(const Step& step) {
    const FourierSteps& steps = all_.steps;
    FourierPass p = step.params;
    p.transform_size = steps.length();
    p.fine_bits = steps.fine_bits();
    p.stages = 0;
    int stride = 1;
    for (const int radix : radices_of(p.length)) {
      p.stage[p.stages++] = {radix, stride};
      stride *= radix;
    }
    const int64_t columns = p.rows * p.columns;
    p.group = static_cast<int>(group_of(p.length, columns));
    p.pitch = static_cast<int>(pitch_of(p.length, p.group));
    Launch launch;
    launch.program = {"fourier",
                      {option("DOUBLE", steps.is_double()), option("ELEMENT", element_of_reals(all_.dtype)),
                       option("LOAD", step.source.kind), option("STORE", step.target.kind)}};
    launch.function = "fourier";
    launch.grid[0] = static_cast<uint32_t>(std::min(ceil_div(columns, p.group), kMostBlocks));
    launch.block[0] = kFourierThreads;
    launch.shared_bytes = static_cast<size_t>(2 * steps.complex_bytes() * p.group * p.pitch);
    set_params(p, &launch);
    add_pointers(step, &launch);
    plan_.launches.push_back(launch);
  }

  int64_t group_of(int64_t length, int64_t columns) const {
    const int64_t room = kBlockBytes / (2 * all_.steps.complex_bytes() * (length | 1));
    const int64_t useful = std::max(kMostColumns, kBlockElements / length);
    const int64_t share = ceil_div(columns, int64_t{all_.device.multiprocessors});
    return std::max<int64_t>(1, std::min({room, useful, share}));
  }

  void add_pointers(const Step& step, Launch* launch) const {
    const FourierSteps& steps = all_.steps;
    std::vector<Pointer>& pointers = launch->pointers;
    pointers.push_back({offsetof(FourierPass, src), step.source.buffer, step.source.offset});
    pointers.push_back({offsetof(FourierPass, dst), step.target.buffer, step.target.offset});
    pointers.push_back({offsetof(FourierPass, roots), Buffer::kTables, steps.roots(step.pass)});
    if (step.pass + 1 < steps.passes().size()) {
      pointers.push_back({offsetof(FourierPass, coarse), Buffer::kTables, steps.coarse()});
      pointers.push_back({offsetof(FourierPass, fine), Buffer::kTables, steps.fine()});
    }
    const auto add_table = [&](bool has, size_t at, size_t table) {
      if (has) pointers.push_back({at, Buffer::kTables, table});
    };
    add_table(step.has_before, offsetof(FourierPass, before), steps.chirp());
    add_table(step.has_middle, offsetof(FourierPass, middle), steps.chirp_spectrum());
    add_table(step.has_after, offsetof(FourierPass, after), step.after);
    if (step.source.kind == kSignal || step.target.kind == kFrames) {
      pointers.push_back({offsetof(FourierPass, window), Buffer::kWindow});
    }
    if (step.source.kind == kSpectra || step.target.kind == kSpectra) {
      pointers.push_back({offsetof(FourierPass, gains), Buffer::kGains});
    }
    if (step.source.kind == kSpectra) {
      const size_t offset = all_.sines == Buffer::kX ? sines_offset() : 0;
      pointers.push_back({offsetof(FourierPass, sines), all_.sines, offset});
    }
  }

  // Of the sines behind the cosines, in one tensor.
  size_t sines_offset() const {
    const FourierFrames& grid = all_.common.frames;
    return grid.has_cosines == 0 ? 0 : static_cast<size_t>(grid.bins * grid.frames) * size_of(all_.dtype);
  }

  const Transforms& all_;
  size_t scratch_, half_bytes_ = 0;
  Plan plan_;
};

FourierFrames frames_of(const kernels::StftProblem& p) {
  using kernels::SpectralParts;
  FourierFrames frames{};
  frames.frames = p.grid.frames;
  frames.hop = p.grid.hop;
  frames.padding = p.grid.padding;
  frames.length = p.grid.length;
  frames.taps = p.grid.taps;
  frames.bins = p.grid.bins;
  frames.has_cosines = p.parts != SpectralParts::kSines;
  frames.has_sines = p.parts != SpectralParts::kCosines;
  frames.image = p.grid.frames * p.grid.bins * (frames.has_cosines + frames.has_sines);
  return frames;
}

// Adds up frames whose distances in memory the caller has set.
Launch overlap_add(DataType dtype, bool is_double, bool is_scratch, const kernels::StftProblem& p, OverlapAdd params,
                   const Device& device) {
  constexpr int64_t kThreads = 256, kBlocksPerMultiprocessor = 8;
  params.batch = p.batch;
  params.length = p.grid.length;
  params.frames = p.grid.frames;
  params.taps = p.grid.taps;
  params.hop = p.grid.hop;
  params.padding = p.grid.padding;
  Launch launch;
  launch.program = {
      "overlap_add",
      {option("DOUBLE", is_double), option("ELEMENT", element_of_reals(dtype)), option("SCRATCH", is_scratch)}};
  launch.function = "overlap_add";
  launch.grid[0] = static_cast<uint32_t>(
      std::min(ceil_div(p.batch * p.grid.length, kThreads), kBlocksPerMultiprocessor * device.multiprocessors));
  launch.block[0] = kThreads;
  set_params(params, &launch);
  launch.pointers.push_back({offsetof(OverlapAdd, src), is_scratch ? Buffer::kScratch : Buffer::kX});
  launch.pointers.push_back({offsetof(OverlapAdd, dst), Buffer::kY});
  if (!is_scratch) launch.pointers.push_back({offsetof(OverlapAdd, window), Buffer::kWindow});
  return launch;
}

}  // namespace

Plan plan_transform(DataType dtype, const FourierSteps& steps, const AxisTransform& t, const Device& device) {
  if (t.outer * t.inner == 0) return {};
  FourierPass common{};
  const bool is_hermitian = t.y_parts == 1;
  const double scale = t.is_inverse ? 1.0 / static_cast<double>(steps.length()) : 1.0;
  common.axis = {t.inner,      t.size, t.count, static_cast<int>(t.x_parts), static_cast<int>(t.y_parts),
                 is_hermitian, scale};
  const Place x{kAxis, Buffer::kX, 0, t.inner > 1}, y{kAxis, Buffer::kY, 0, t.inner > 1};
  const int64_t given = is_hermitian ? steps.length() : std::min(t.size, steps.length());
  return Planner({dtype, steps, device, common, t.outer * t.inner, t.is_inverse, given, t.count, x, y, Buffer::kX}, 0)
      .plan();
}

Plan plan_forward_stft(DataType dtype, const FourierSteps& steps, const kernels::StftProblem& p, const Device& device) {
  if (p.batch * p.grid.frames == 0) return {};
  FourierPass common{};
  common.frames = frames_of(p);
  return Planner({dtype, steps, device, common, p.batch * p.grid.frames, false, p.grid.taps, p.grid.bins,
                  Place{kSignal, Buffer::kX, 0, false}, Place{kSpectra, Buffer::kY, 0, true}, Buffer::kX},
                 0)
      .plan();
}

Plan plan_inverse_stft(DataType dtype, const FourierSteps& steps, const kernels::StftProblem& p, bool has_sines,
                       const Device& device) {
  if (p.batch * p.grid.length == 0) return {};
  FourierPass common{};
  common.frames = frames_of(p);
  if (has_sines) common.frames.image = p.grid.frames * p.grid.bins;
  const int64_t rows = p.batch * p.grid.frames;
  const int64_t real_bytes = steps.complex_bytes() / 2;
  const int64_t frame_bytes = align_up(rows * p.grid.taps * real_bytes, kBufferAlignment);
  Plan plan;
  plan.scratch_bytes = static_cast<size_t>(frame_bytes);
  if (rows > 0) {
    plan = Planner({dtype, steps, device, common, rows, true, p.grid.bins, p.grid.taps,
                    Place{kSpectra, Buffer::kX, 0, true}, Place{kFrames, Buffer::kScratch, 0, false},
                    has_sines ? Buffer::kSines : Buffer::kX},
                   plan.scratch_bytes)
               .plan();
  }
  OverlapAdd sum{};
  sum.image = p.grid.frames * p.grid.taps;
  sum.frame = p.grid.taps;
  sum.tap = 1;
  plan.launches.push_back(overlap_add(dtype, steps.is_double(), true, p, sum, device));
  return plan;
}

Plan plan_overlap_add(DataType dtype, const kernels::StftProblem& p, const Device& device) {
  if (p.batch * p.grid.length == 0) return {};
  OverlapAdd sum{};
  sum.image = p.grid.frames * p.grid.taps;
  sum.frame = 1;
  sum.tap = p.grid.frames;
  return {0, {overlap_add(dtype, dtype == DataType::kDouble, false, p, sum, device)}};
}

}  // namespace ortconv::cuda

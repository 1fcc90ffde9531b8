#include "kernels/gemm_col2im/writing.h"

#include <algorithm>

#include "kernels/expand/steps.h"
#include "kernels/fill.h"
#include "kernels/im2col/product.h"

namespace ortconv::kernels::gemm_col2im {
namespace {

// Numbers that are put together before they are written past the caches, at least.
constexpr int64_t kStaged = 4096;

}  // namespace

Writing::Writing(const Plan& plan, const ConvProblem& p) : Axes(plan, p) {
  // With vectors of 8, a few slots take less time when they are written one by one than interleaved with zeros.
  most_phases_in_gaps = plan.arch.avx512 || axis[ndims - 1].slots >= kLeastInRun ? 8 : 4;
  takes_steps = measure_dst(p);
  lies_far = kernels::lies_far(p, size_of(plan.dtype));
  gaps_lie_far = kernels::gaps_lie_far(p, size_of(plan.dtype));
  find_lines();
  stages_lines = should_stage_lines(p, size_of(plan.dtype));
  // At least as many j as a vector holds: for each, a number of every slot is read, and with it a cache line.
  const int64_t vector = plan.arch.avx512 ? 16 : 8;
  num_staged = stages_lines ? std::max(kStaged, vector * axis[line].stride * line_unit) : 0;
  constexpr int64_t kFewSlots = 8;
  in_steps = takes_steps && (prefers_steps(plan.arch) || (gaps_lie_far && axis[ndims - 1].slots <= kFewSlots));
  if (in_steps) crop(plan);
  has_gaps = std::any_of(axis, axis + ndims, [](const Axis& a) { return a.has_gaps() || a.by_position; });
}

// Whether channels of dst can be written in steps: the numbers of one lie next to each other, of each image.
bool Writing::measure_dst(const ConvProblem& p) {
  constexpr int64_t kMostNumbers = 1 << 20, kTogether = 4096;
  inner_dst = 1;
  for (first_in_steps = ndims - 1;; --first_in_steps) {
    const Axis& x = axis[first_in_steps];
    if (x.dst_x != inner_dst && x.dst_size > 1) {
      if (first_in_steps > 0 || ndims == 1 || x.stride > 1) return false;
      first_in_steps = 1;
      inner_dst /= axis[1].dst_size;
      break;
    }
    if (first_in_steps == 0) break;
    inner_dst *= x.dst_size;
  }
  const int64_t numbers = inner_dst * axis[first_in_steps].dst_size;
  channels_in_steps = p.dst_c == numbers ? std::max<int64_t>(1, kTogether / std::max<int64_t>(1, numbers)) : 1;
  return numbers <= kMostNumbers && (p.dst_c != 1 || numbers == 1);
}

void Writing::find_lines() {
  line = ndims - 1, line_unit = 1;
  while (line > 0 && axis[line].stride == 1 && axis[line].dst_x == line_unit) line_unit *= axis[line--].dst_size;
  if (axis[line].dst_x != line_unit && line_unit > 1) line = ndims - 1, line_unit = 1;
}

// Whether lines are put together in a cache and then written past the caches: long ones, of a dst that is too large for
// the caches. A line with gaps would be written twice, so that it pays for a smaller dst too.
bool Writing::should_stage_lines(const ConvProblem& p, size_t element_bytes) const {
  constexpr double kFarWithGaps = 16 << 20;
  constexpr int64_t kShortLine = 1536;   // bytes
  constexpr int64_t kMostStride = 4096;  // numbers: as many as are put together then stay in L2
  const Axis& along = axis[line];
  if (along.dst_x != line_unit || along.stride * line_unit > kMostStride) return false;
  if (along.dst_size * line_unit * static_cast<int64_t>(element_bytes) < kShortLine) return false;
  return lies_far || (axis[ndims - 1].has_gaps() && !is_mostly_gaps(p, element_bytes) &&
                      dst_bytes(p, element_bytes) > kFarWithGaps);
}

bool Writing::has_long_lines(size_t element_bytes) const {
  constexpr int64_t kLongLine = 4 << 10;  // bytes
  return axis[line].dst_size * line_unit * static_cast<int64_t>(element_bytes) > kLongLine;
}

// Where lines are short, more than channels, and stay in the caches until their neighbours are written.
bool Writing::writes_by_slots(int64_t channels, size_t element_bytes) const {
  constexpr int64_t kNear = 4 << 20;  // bytes
  if (line == 0 || axis[line].has_gaps() || has_long_lines(element_bytes)) return false;
  const Axis& outer = axis[line - 1];
  if (outer.dst_size < channels * outer.stride) return false;
  int64_t bytes = line_unit * static_cast<int64_t>(element_bytes);
  for (int a = 0; a <= line; ++a) bytes *= axis[a].dst_size;
  return bytes <= kNear;
}

// Whether that is best: where channels are not those of interleaved slots in long lines.
bool Writing::prefers_steps(const ArchFlags& arch) const {
  constexpr int64_t kFewSlots = 4, kFewInterleaved = 16, kFewPhases = 4;
  const Axis& last = axis[ndims - 1];
  if (last.slots > kMostPhases) return false;
  const bool crops = !last.is_plain() && last.is_disjoint();
  const bool in_runs = last.in_order() && last.slots >= kLeastInRun;
  const bool sparse = 2 * last.slots <= last.stride && last.stride > most_phases_in_gaps && !in_runs;
  // Steps of vectors of 16 take less time for pairs and gaps, those of 8 for wide gaps only.
  const bool quick = arch.avx512 ? last.slots == 2 || last.has_gaps() : last.has_gaps() && last.stride > kFewPhases;
  const int64_t few = quick && last.slots <= kFewSlots ? kFewInterleaved : kLeastInterleaved;
  // Sums among gaps take less time when they are written one by one, from so many positions on. Those that crop() has
  // be products do only where the gaps are shorter than a vector.
  constexpr int64_t kManyCropped = 128;
  const bool one_by_one = sparse && last.stride <= kExpandWidth && last.j_count >= kManyCropped;
  const bool any = (last.slots == 1 && !sparse) || (crops && last.slots <= kFewSlots && !one_by_one);
  const int64_t few_sparse = last.slots < kLeastInRun || stages_lines ? 6 : 256;
  if (!any && last.j_count >= (sparse ? few_sparse : few)) return false;
  return std::any_of(axis, axis + ndims, [](const Axis& a) { return a.stride > 1; });
}

// Has the sums of disjoint taps be their products, wherever these fall.
void Writing::crop(const Plan& plan) {
  if (first_in_steps > 0 && !axis[0].is_plain()) return;
  const auto can = [](const Axis& a) { return a.is_plain() || (a.is_disjoint() && a.x_count > 0); };
  if (im2col::has_totals(plan.ic) || !std::all_of(axis, axis + ndims, can)) return;
  for (int a = 0; a < ndims; ++a) {
    Axis& x = axis[a];
    if (x.is_plain()) continue;
    x.by_position = x.by_tap = true;
    x.j_count = x.x_count;
  }
}

}  // namespace ortconv::kernels::gemm_col2im

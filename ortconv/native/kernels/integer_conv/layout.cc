#include "kernels/integer_conv/layout.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/math.h"

namespace ortconv::kernels {
namespace {

constexpr int64_t kMostDepth = 4;  // of kernels

// A single tap at every position: the axes make no difference.
bool is_pointwise(const ConvProblem& p) {
  for (int i = 0; i < p.ndims; ++i) {
    if (p.ker[i] != 1 || p.stride[i] != 1 || p.pad[i] != 0 || p.src_size[i] != p.dst_size[i]) return false;
  }
  return true;
}

// Whether a single plane has all phases.
bool is_stepped(const ConvProblem& p) {
  return is_integer_depthwise(p) &&
         std::all_of(p.stride, p.stride + p.ndims, [](int64_t stride) { return stride <= 2; });
}

// Whether the dense layout, which copies more, may pay: with enough outputs per copied number, and rows that are short
// compared with the kernel.
bool may_be_dense(const ConvProblem& p) {
  constexpr int64_t kLeastChannels = 64, kLongest = 64;
  const int last = p.ndims - 1;
  return p.oc / p.g >= kLeastChannels && p.ker[last] > 1 && p.dst_size[last] <= kLongest;
}

// Whether a lane holds several taps of this axis, which must stay neighbours.
bool joins_taps(const ConvProblem& p, int i) {
  return is_integer_depthwise(p) && i == p.ndims - 1 && p.dilation[i] < kMostDepth * p.stride[i];
}

// How far each tap of an axis is from the first position that any tap reads, which moves `pad`. Taps that read nothing
// but padding are moved to where it begins, in front of the source or behind it: however far they are, no more padding
// is arranged than there are outputs.
std::vector<int64_t> reaches_of(const ConvProblem& p, int i, int64_t* pad) {
  std::vector<int64_t> reaches(p.ker[i]);
  const int64_t before = p.pad[i] - (p.dst_size[i] - 1) * p.stride[i] - 1, behind = p.pad[i] + p.src_size[i];
  for (int64_t tap = 0; tap < p.ker[i]; ++tap) {
    const int64_t reach = tap * p.dilation[i];
    reaches[tap] = joins_taps(p, i) ? reach : std::min(std::max(reach, before), behind);
  }
  const int64_t first = reaches.front();
  for (int64_t& reach : reaches) reach -= first;
  *pad = p.pad[i] - first;
  return reaches;
}

IntegerAxis axis_of(const ConvProblem& p, int i, bool is_dense) {
  IntegerAxis axis{p.src_size[i], 0, p.stride[i], 0, {}, {}, 1, is_dense && i == p.ndims - 1};
  axis.reaches = reaches_of(p, i, &axis.pad);
  const int64_t reach = axis.reaches.back();
  if (is_stepped(p)) {
    // Whole rows of the source, so that one goes on in the next.
    axis.grid = std::max((p.dst_size[i] - 1) * p.stride[i] + reach + 1, p.src_size[i] + axis.pad);
    axis.stride = 1, axis.step = p.stride[i];
  } else {
    axis.grid = p.dst_size[i] + (axis.is_dense ? 0 : reach / p.stride[i]);
  }
  for (const int64_t each : axis.reaches) axis.phases.push_back(axis.phase_of(each));
  std::sort(axis.phases.begin(), axis.phases.end());
  axis.phases.erase(std::unique(axis.phases.begin(), axis.phases.end()), axis.phases.end());
  return axis;
}

}  // namespace

std::optional<IntegerConvLayout> IntegerConvLayout::make(const ConvProblem& problem, const IntegerConvKernel& kernel) {
  constexpr double kWorth = 0.92;
  // What is empty may have sizes whose product does not fit.
  const auto is_empty = [](int64_t size) { return size == 0; };
  if (problem.ic == 0 || std::any_of(problem.src_size, problem.src_size + problem.ndims, is_empty)) return std::nullopt;
  IntegerConvLayout layout(problem, false);
  if (!layout.is_proportionate(problem, kernel)) return std::nullopt;
  layout.find(problem, kernel);
  if (!may_be_dense(problem)) return layout;
  IntegerConvLayout dense(problem, true);
  if (!dense.is_proportionate(problem, kernel)) return layout;
  dense.find(problem, kernel);
  return dense.cost(kernel) < kWorth * layout.cost(kernel) ? std::move(dense) : std::move(layout);
}

IntegerConvLayout::IntegerConvLayout(const ConvProblem& problem, bool is_dense)
    : inputs(product_of(problem.src_size, problem.ndims)), outputs(product_of(problem.dst_size, problem.ndims)) {
  if (is_pointwise(problem)) {
    axes = {{inputs, outputs, 1, 0, {0}, {0}, 1}};
  } else {
    for (int i = 0; i < problem.ndims; ++i) axes.push_back(axis_of(problem, i, is_dense));
  }
}

// Whether no more is arranged than some times what the source and the result take. It is more where strides are longer
// than the source and dilations are, too: each tap then has a plane of its own, most of which is padding.
bool IntegerConvLayout::is_proportionate(const ConvProblem& p, const IntegerConvKernel& kernel) const {
  constexpr double kMost = 32, kAlways = 1 << 20;  // times as many bytes, and bytes
  double lanes = 1, rows = 1;
  for (const IntegerAxis& axis : axes) {
    const auto count = static_cast<double>(axis.phases.size()), grid = static_cast<double>(axis.grid);
    lanes *= count * grid;
    rows *= count * (&axis == &axes.back() ? std::ceil(grid / kernel.lanes) : grid);
  }
  const auto channels = static_cast<double>(p.g * ceil_div(p.ic / p.g, kernel.depth));
  const double arranged = lanes * channels * sizeof(uint32_t) + rows * sizeof(IntegerCopy);
  const double given = static_cast<double>(inputs) * static_cast<double>(p.ic) +
                       static_cast<double>(outputs) * static_cast<double>(p.oc) * sizeof(float);
  return arranged <= kMost * given + kAlways;
}

void IntegerConvLayout::find(const ConvProblem& problem, const IntegerConvKernel& kernel) {
  planes = plane = 1;
  for (const IntegerAxis& axis : axes) planes *= static_cast<int64_t>(axis.phases.size()), plane *= axis.grid;
  find_taps(problem);
  find_positions(problem, kernel.lanes);
  find_copies(kernel.lanes);
  positions.shrink_to_fit();
  block_stride = planes * plane;
  if (is_pointwise(problem) && !is_integer_depthwise(problem)) {
    put_together(ceil_div(problem.ic / problem.g, kernel.depth), int64_t{kernel.vectors} * kernel.lanes);
  }
}

// The lanes of so many blocks of channels for `count` positions.
void IntegerConvLayout::put_together(int64_t blocks, int64_t count) {
  const auto moved = [&](int64_t position) { return position / count * count * blocks + position % count; };
  for (PositionVector& vector : positions) vector.src = moved(vector.src);
  for (IntegerCopy& copy : copies.front()) copy.dst = moved(copy.dst);
  plane = align_up(plane, count);
  block_stride = count;
}

// Of the tiles, in cycles for a lane of the source: half a product takes one, and a tile of one vector waits for
// weights.
double IntegerConvLayout::cost(const IntegerConvKernel& kernel) const {
  const auto vectors = static_cast<int64_t>(positions.size()), rest = vectors % kernel.vectors;
  const double row = 0.5 * kernel.rows;
  const double last = positions.back().count == 1 ? 0.4 * row : 1.1 * row;
  return static_cast<double>(vectors - rest) * row + (rest == 1 ? last : static_cast<double>(rest) * row);
}

void IntegerConvLayout::find_taps(const ConvProblem& p) {
  if (axes.size() != static_cast<size_t>(p.ndims)) {
    taps = {0};
    return;
  }
  struct Place {
    int64_t phase, offset;  // so far
  };
  std::vector<Place> places = {{0, 0}};
  for (int i = 0; i < p.ndims; ++i) {
    const IntegerAxis& axis = axes[i];
    std::vector<Place> next;
    for (const Place& place : places) {
      for (const int64_t reach : axis.reaches) {
        const int64_t phase = axis.phase_of(reach);
        const auto found = std::lower_bound(axis.phases.begin(), axis.phases.end(), phase);
        next.push_back({place.phase * static_cast<int64_t>(axis.phases.size()) + (found - axis.phases.begin()),
                        place.offset * axis.grid + (reach - phase) / axis.stride});
      }
    }
    places = std::move(next);
  }
  for (const Place& place : places) taps.push_back(place.phase * plane + place.offset);
}

void IntegerConvLayout::find_positions(const ConvProblem& p, int lanes) {
  const auto last = axes.size() - 1;
  const bool merged = axes.size() != static_cast<size_t>(p.ndims);
  const auto size = [&](size_t axis) { return merged ? outputs : p.dst_size[axis]; };
  const int64_t width = size(last), rows = outputs / width, step = axes[last].step;
  int64_t done = 0;
  for (int64_t row = 0; row < rows; ++row) {
    int64_t begin = 0, scale = axes[last].grid, rest = row;
    for (size_t axis = last; axis-- > 0; rest /= size(axis), scale *= axes[axis].grid)
      begin += rest % size(axis) * axes[axis].step * scale;
    for (int64_t i = 0; i < width;) {
      const int64_t at = begin + i * step, from = positions.empty() ? at : positions.back().src;
      if (positions.empty() || (at - from) % step != 0 || (at - from) / step >= lanes) {
        positions.push_back({at, done, 0, 0});
      }
      PositionVector& vector = positions.back();
      const int64_t lane = (at - vector.src) / step, count = std::min(width - i, lanes - lane);
      vector.lanes |= static_cast<uint32_t>((uint64_t{1} << count) - 1) << lane;
      vector.count += static_cast<int32_t>(count);
      i += count, done += count;
    }
  }
}

void IntegerConvLayout::find_copies(int lanes) {
  // Without strides, a plane that has whole rows is the source with padding in between: a copy may go on in the next
  // row.
  const bool is_flat = std::all_of(axes.begin(), axes.end(), [&](const IntegerAxis& axis) {
    const bool is_whole = &axis == &axes.front() || (axis.pad >= 0 && axis.grid >= axis.src + axis.pad);
    return axis.stride == 1 && !axis.is_dense && is_whole;
  });
  const int64_t width = axes.back().grid, row = is_flat ? plane : width;
  copies.resize(planes);
  for (int64_t index = 0; index < planes; ++index) {
    copies[index].reserve(plane / row * ceil_div(row, lanes));
    for (int64_t begin = 0; begin < plane; begin += row) {
      for (int64_t at = 0; at < row; at += lanes) {
        copies[index].push_back({0, begin + at, 0, 0, static_cast<int32_t>(std::min<int64_t>(lanes, row - at)), -1});
      }
    }
    for (int64_t i = 0; i < plane / width; ++i) copy_row(index, i, lanes, is_flat);
  }
}

void IntegerConvLayout::copy_row(int64_t index, int64_t row, int lanes, bool is_flat) {
  const IntegerAxis& last = axes.back();
  const int64_t first = row * last.grid, per_row = ceil_div(last.grid, lanes), own = row * per_row;
  // From the last axis to the first one.
  auto phases = static_cast<int64_t>(last.phases.size());
  int64_t rest = index / phases, at = 0, scale = last.src;
  const int64_t shift = last.phases[index % phases] - last.pad;
  for (size_t i = axes.size() - 1; i-- > 0;) {
    const IntegerAxis& axis = axes[i];
    phases = static_cast<int64_t>(axis.phases.size());
    const int64_t position = row % axis.grid * axis.stride + axis.phases[rest % phases] - axis.pad;
    if (position < 0 || position >= axis.src) return;
    at += position * scale;
    row /= axis.grid, rest /= phases, scale *= axis.src;
  }
  // Position i of the row is i * stride + shift of the source's.
  const int64_t begin = std::min(shift >= 0 ? 0 : ceil_div(-shift, last.stride), last.grid);
  const int64_t end = std::min(last.src > shift ? ceil_div(last.src - shift, last.stride) : 0, last.grid);
  for (int64_t i = begin; i < end;) {
    IntegerCopy& copy = copies[index][is_flat ? (first + i) / lanes : own + i / lanes];
    const int64_t lane = first + i - copy.dst, count = std::min(end - i, copy.stored - lane);
    if (copy.count == 0) copy.src = at + i * last.stride + shift;
    copy.lead = static_cast<int32_t>(copy.count == 0 ? lane : lane == copy.lead + copy.count ? copy.lead : -1);
    copy.lanes |= static_cast<uint32_t>((uint64_t{1} << count) - 1) << lane;
    copy.count += static_cast<int32_t>(count);
    i += count;
  }
}

bool is_integer_depthwise(const ConvProblem& p) { return p.ic == p.g && p.oc / p.g <= 4; }

std::vector<IntegerWindow> integer_windows(const ConvProblem& p, const IntegerConvKernel& kernel) {
  const int64_t span = kernel.takes_bytes() ? kernel.depth : 1;
  const int last = p.ndims - 1;
  const int64_t width = p.ker[last], stride = is_stepped(p) ? 1 : p.stride[last];
  const int64_t rows = product_of(p.ker, last);
  std::vector<IntegerWindow> windows;
  for (int64_t row = 0; row < rows; ++row) {
    std::vector<bool> taken(width);
    for (int64_t first = 0; first < width; ++first) {
      if (taken[first]) continue;
      IntegerWindow window = {-1, -1, -1, -1};
      for (int64_t tap = first; tap < width; ++tap) {
        const int64_t reach = (tap - first) * p.dilation[last];
        if (reach >= span * stride) break;
        if (reach % stride != 0) continue;
        window[reach / stride] = row * width + tap;
        taken[tap] = true;
      }
      windows.push_back(window);
    }
  }
  return windows;
}

}  // namespace ortconv::kernels

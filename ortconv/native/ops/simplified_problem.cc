#include "ops/simplified_problem.h"

#include <algorithm>
#include <cstdint>

#include "base/math.h"

namespace ortconv {
namespace {

// The first of the axes at the end along which src has one element; ndims where all have, or the last has more.
int first_unit_axis(const ConvProblem& p) {
  int first = p.ndims;
  while (first > 0 && p.src_size[first - 1] == 1) --first;
  return first == 0 ? p.ndims : first;
}

// The taps of an axis with one element of src that land in dst, if they are next to each other and there is one for
// each element.
bool crop_axis(const ConvProblem& p, int a, Crop* crop) {
  if (p.pad[a] % p.dilation[a] != 0) return false;
  if (p.dilation[a] != 1 && p.dst_size[a] != 1) return false;
  crop->begin[a] = p.pad[a] / p.dilation[a];
  crop->size[a] = p.dst_size[a];
  return crop->begin[a] < p.ker[a] && crop->size[a] <= p.ker[a] - crop->begin[a];
}

int64_t taps_of(const ConvProblem& p, const Crop& crop) { return product_of(crop.size, p.ndims); }

// Whether all numbers of the merged axis stay far from overflowing.
bool fits(const ConvProblem& p, int a, int64_t dst) {
  constexpr double kMost = 1LL << 60;
  const int64_t largest = std::max({p.ker[a], p.stride[a], p.pad[a], p.dst_size[a]});
  return static_cast<double>(largest) * static_cast<double>(dst) < kMost;
}

// How many axes are left if those at the end along which src has one element are merged into the one before; `dst` is
// how many elements of dst they have. All, where they cannot be.
int merge_unit_axes(const ConvProblem& p, Crop* crop, int64_t* dst) {
  const int first = first_unit_axis(p), into = first - 1;
  Crop units = *crop;
  int64_t elements = 1;
  for (int a = p.ndims - 1; a >= first; --a) {
    if (!crop_axis(p, a, &units)) return p.ndims;
    if (p.dst_size[a] > 1 && p.dst_x[a] != elements) return p.ndims;
    elements *= p.dst_size[a];
  }
  if (elements > 1 && (p.dilation[into] != 1 || p.dst_x[into] != elements || !fits(p, into, elements))) return p.ndims;
  *crop = units;
  *dst = elements;
  return first;
}

// Leaves out the taps of the axes that are left which land nowhere, unless they are too few for a copy of the weights.
// What remains begins earlier where padding would be negative. False: none are left out.
bool drop_taps(const ConvProblem& p, Crop* crop) {
  constexpr double kMostLeft = 0.875;
  Crop fewer = *crop;
  double left = 1;
  for (int a = 0; a < crop->axes; ++a) {
    const int64_t first = ceil_div(p.pad[a] - (p.src_size[a] - 1) * p.stride[a], p.dilation[a]);
    const int64_t begin = std::clamp<int64_t>(first, 0, p.pad[a] / p.dilation[a]);
    const int64_t end = std::min(p.ker[a], floor_div(p.dst_size[a] - 1 + p.pad[a], p.dilation[a]) + 1);
    if (begin >= end) continue;
    fewer.begin[a] = begin;
    fewer.size[a] = end - begin;
    left *= static_cast<double>(end - begin) / static_cast<double>(p.ker[a]);
  }
  if (left > kMostLeft) return false;
  *crop = fewer;
  return true;
}

bool is_whole_and_dense(const ConvProblem& p, const Crop& crop) {
  int64_t stride = 1;
  for (int a = p.ndims - 1; a >= 0; --a) {
    if (crop.size[a] != p.ker[a] || (p.ker[a] > 1 && p.wei_x[a] != stride)) return false;
    stride *= p.ker[a];
  }
  return true;
}

}  // namespace

bool operator==(const Crop& a, const Crop& b) {
  return a.axes == b.axes && std::equal(a.begin, a.begin + kMaxSpatial, b.begin) &&
         std::equal(a.size, a.size + kMaxSpatial, b.size);
}

std::optional<SimplifiedProblem> simplified(const ConvProblem& full, bool may_copy) {
  SimplifiedProblem found;
  found.problem = full;
  Crop& crop = found.crop;
  std::copy_n(full.ker, full.ndims, crop.size);
  int64_t dst = 1;  // elements of the merged axes
  crop.axes = merge_unit_axes(full, &crop, &dst);
  const bool drops = may_copy && drop_taps(full, &crop);
  found.copies = !is_whole_and_dense(full, crop);
  if ((crop.axes == full.ndims && !drops) || (found.copies && !may_copy)) return std::nullopt;
  ConvProblem& p = found.problem;
  p.ndims = crop.axes;
  for (int a = 0; a < p.ndims; ++a) {
    p.ker[a] = crop.size[a];
    p.pad[a] -= crop.begin[a] * p.dilation[a];
    if (p.ker[a] == 1) p.dilation[a] = 1;
  }
  if (dst > 1) {
    const int into = p.ndims - 1;
    p.ker[into] *= dst;
    p.stride[into] *= dst;
    p.pad[into] *= dst;
    p.dst_size[into] *= dst;
    p.dst_x[into] = 1;
  }
  if (found.copies) {
    p.wei_1 = taps_of(full, crop);
    p.wei_0 = p.wei_1 * (full.oc / full.g);
  }
  int64_t stride = 1;
  for (int a = p.ndims - 1; a >= 0; --a) {
    p.wei_x[a] = stride;
    stride *= p.ker[a];
  }
  return found;
}

size_t cropped_bytes(DataType dtype, const ConvProblem& full, const Crop& crop) {
  const int64_t count = full.ic * (full.oc / full.g) * taps_of(full, crop);
  return static_cast<size_t>(count) * with_type(dtype, [](auto zero) { return sizeof zero; });
}

void crop_weights(DataType dtype, const ConvProblem& full, const Crop& crop, const void* wei, void* copy) {
  with_type(dtype, [&](auto zero) {
    using T = decltype(zero);
    T* out = static_cast<T*>(copy);
    const T* in = static_cast<const T*>(wei);
    for (int a = 0; a < full.ndims; ++a) in += crop.begin[a] * full.wei_x[a];
    const int64_t taps = taps_of(full, crop);
    for (int64_t i = 0; i < full.ic; ++i) {
      for (int64_t o = 0; o < full.oc / full.g; ++o) {
        for (int64_t tap = 0; tap < taps; ++tap) {
          *out++ = in[i * full.wei_0 + o * full.wei_1 + offset_of(tap, crop.size, full.wei_x, full.ndims)];
        }
      }
    }
  });
}

}  // namespace ortconv

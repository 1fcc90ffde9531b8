#include "ops/unit_axes.h"

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

std::optional<MergedAxes> merge_unit_axes(const ConvProblem& full) {
  const int first = first_unit_axis(full), into = first - 1;
  if (first == full.ndims) return std::nullopt;
  MergedAxes merged;
  merged.problem = full;
  merged.crop.axes = first;
  std::copy_n(full.ker, full.ndims, merged.crop.size);
  int64_t dst = 1;  // elements of the merged axes
  for (int a = full.ndims - 1; a >= first; --a) {
    if (!crop_axis(full, a, &merged.crop)) return std::nullopt;
    if (full.dst_size[a] > 1 && full.dst_x[a] != dst) return std::nullopt;
    dst *= full.dst_size[a];
  }
  ConvProblem& p = merged.problem;
  if (dst > 1) {
    if (full.dilation[into] != 1 || full.dst_x[into] != dst || !fits(full, into, dst)) return std::nullopt;
    p.ker[into] *= dst;
    p.stride[into] *= dst;
    p.pad[into] *= dst;
    p.dst_size[into] *= dst;
    p.dst_x[into] = 1;
  }
  p.ndims = first;
  merged.copies = !is_whole_and_dense(full, merged.crop);
  if (merged.copies) {
    p.wei_1 = taps_of(full, merged.crop);
    p.wei_0 = p.wei_1 * (full.oc / full.g);
  }
  int64_t stride = 1;
  for (int a = into; a >= 0; --a) {
    p.wei_x[a] = stride;
    stride *= p.ker[a];
  }
  return merged;
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

// What happens to a tile of sums: its runs of positions, the activation, writing dst.
#include <algorithm>
#include <type_traits>

#include "kernels/conv/stages.h"

namespace ortconv::kernels {
namespace {

// Adds the bias to the sums of dst channels [oc_begin, oc_begin + oc_count), and applies the activation.
template <class T>
void activate_tile(const Scatter<T>& s, const Unit& unit, int64_t oc_begin, int64_t oc_count, int64_t columns,
                   const float* bias, float* tile) {
  for (int64_t oc = oc_begin; oc < oc_begin + oc_count; ++oc) {
    for (int64_t cls = 0; cls < unit.num_classes; ++cls, tile += s.geometry.columns) {
      s.plan.activate->template run<T>(s.problem.activation, bias == nullptr ? 0.0f : bias[oc], columns, tile);
    }
  }
}

}  // namespace

void fill_phases(const Plan& plan, const Geometry& geometry, const ConvProblem& problem, int64_t* phases) {
  for (int a = 0; a < plan.ndims; ++a) {
    const AxisPlan& axis = plan.axis[a];
    for (int64_t r = 0; r < axis.dst_step; ++r) *phases++ = phase_of(axis, geometry.axis[a], problem.pad[a], r);
  }
}

int64_t list_segments(const Plan& plan, const Geometry& geometry, const Block& block, int64_t begin, int64_t end,
                      Segment* segments) {
  const int last = plan.ndims - 1;
  const AxisFrame* axis = geometry.axis;
  const int64_t width = axis[last].grid;
  const int64_t row = begin / width;
  int64_t at[kMaxSpatial], image = row;  // where in the block the row is
  for (int a = last - 1; a >= 0; --a) {
    at[a] = image % axis[a].grid;
    image /= axis[a].grid;
  }
  int64_t count = 0;
  for (int64_t row_begin = row * width; row_begin < end && image < block.batch_count; row_begin += width) {
    bool wanted = true;
    for (int a = 0; a < last; ++a) wanted &= at[a] < block.count[a];
    const int64_t from = std::max(begin - row_begin, int64_t{0});
    const int64_t to = std::min(end - row_begin, block.count[last]);
    if (wanted && from < to) {
      Segment& seg = segments[count++];
      seg.column = row_begin + from - begin;
      seg.length = to - from;
      seg.batch = block.batch_begin + image;
      for (int a = 0; a < last; ++a) seg.position[a] = block.begin[a] + at[a];
      seg.position[last] = block.begin[last] + from;
    }
    int a = last - 1;
    while (a >= 0 && ++at[a] == axis[a].grid) at[a--] = 0;
    if (a < 0) ++image;
  }
  return count;
}

template <class T>
const Sum<T>* widened_bias(const T* bias, int64_t count, Sum<T>* room) {
  if constexpr (std::is_same_v<T, Sum<T>>) {
    return bias;
  } else {
    if (bias == nullptr) return nullptr;
    for (int64_t i = 0; i < count; ++i) room[i] = widen(bias[i]);
    return room;
  }
}

template <class T>
void write_tile(const Scatter<T>& s, const Unit& unit, const Segment* segments, int64_t num_segments, int64_t columns,
                Sum<T>* tile, int64_t oc_begin, int64_t oc_count, const Sum<T>* bias, T* dst) {
  if constexpr (!std::is_same_v<T, double>) {  // which has no activation
    if (!s.problem.activation.is_identity()) {
      activate_tile(s, unit, oc_begin, oc_count, columns, bias, tile);
      bias = nullptr;
    }
  }
  scatter(s, unit, segments, num_segments, tile, oc_begin, oc_count, bias, dst);
}

#define INSTANTIATE(T)                                                                                         \
  template const Sum<T>* widened_bias(const T*, int64_t, Sum<T>*);                                             \
  template void write_tile(const Scatter<T>&, const Unit&, const Segment*, int64_t, int64_t, Sum<T>*, int64_t, \
                           int64_t, const Sum<T>*, T*);
ORTCONV_FLOAT_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace ortconv::kernels

#include <algorithm>

#include "base/math.h"
#include "kernels/conv/stages.h"
#include "kernels/interleave/row_range.h"

namespace ortconv::kernels {
namespace {

// As write_row_range() where the elements of a row lie dst_step apart.
template <class T>
void write_rows_strided(const InterleaveArgs<T>& args, int64_t begin, int64_t end, int64_t dst_step) {
  const int64_t phases = args.phases;
  for (int64_t c = 0; c < args.channels; ++c) {
    const Sum<T> bias = args.bias_of(c);
    for (int64_t p = 0; p < phases; ++p) {
      const Sum<T>* row = args.src[p] + c * args.src_stride;
      const int64_t first = p < begin ? 1 : 0;
      T* out = args.dst + c * args.dst_stride + (first * phases + p) * dst_step;
      for (int64_t i = first; i * phases + p < end; ++i, out += phases * dst_step) round_to(out, row[i] + bias);
    }
  }
}

// The same for all dst channels at once where they are next to each other in dst.
template <class T>
void write_channels_last(TransposeFn<T> transpose, const InterleaveArgs<T>& args, int64_t begin, int64_t end,
                         int64_t dst_step) {
  const int64_t phases = args.phases;
  for (int64_t phase = 0; phase < phases; ++phase) {
    const int64_t first = phase < begin ? 1 : 0;
    const int64_t count = ceil_div(end - phase, phases) - first;
    if (count <= 0) continue;
    transpose(args.src[phase] + first, args.src_stride, args.channels, count, args.bias,
              args.dst + (first * phases + phase) * dst_step, phases * dst_step);
  }
}

}  // namespace

template <class T>
void scatter(const Scatter<T>& s, const Unit& unit, const Segment* segments, int64_t num_segments, const Sum<T>* tile,
             int64_t oc_begin, int64_t oc_count, const Sum<T>* bias, T* dst) {
  const Plan& plan = s.plan;
  const ConvProblem& p = s.problem;
  const int last = plan.ndims - 1;
  const AxisPlan& x_axis = plan.axis[last];
  const int64_t phases = x_axis.dst_step, dst_x = p.dst_x[last];
  const int64_t outer_classes = unit.num_classes / phases;
  const int64_t columns = s.geometry.columns;
  const Sum<T>** rows = s.rows;
  const int64_t* last_phase = s.phases;
  for (int a = 0; a < last; ++a) last_phase += plan.axis[a].dst_step;

  for (const Segment* seg = segments; seg != segments + num_segments; ++seg) {
    const int64_t x0 = seg->position[last] * phases + s.geometry.axis[last].base;
    const int64_t begin = std::max<int64_t>(0, -x0);
    const int64_t end = std::min(seg->length * phases, p.dst_size[last] - x0);
    if (begin >= end) continue;
    for (int64_t outer = 0; outer < outer_classes; ++outer) {
      int64_t at = seg->batch * p.dst_n + oc_begin * p.dst_c + x0 * dst_x;
      bool inside = true;
      const int64_t* phase = s.phases;
      for (int a = 0; a < last; ++a) {
        const int64_t step = plan.axis[a].dst_step;
        const int64_t y = seg->position[a] * step + phase[unit.outer_class[outer * last + a]] + s.geometry.axis[a].base;
        phase += step;
        inside &= y >= 0 && y < p.dst_size[a];
        at += y * p.dst_x[a];
      }
      if (!inside) continue;
      const Sum<T>* row = tile + outer * phases * columns + seg->column;
      for (int64_t r = 0; r < phases; ++r, row += columns) rows[last_phase[r]] = row;
      InterleaveArgs<T> args = {rows,
                                unit.num_classes * columns,
                                oc_count,
                                seg->length,
                                phases,
                                bias == nullptr ? nullptr : bias + oc_begin,
                                dst + at,
                                p.dst_c,
                                s.geometry.store};
      if (dst_x == 1) {
        write_row_range(plan.interleave->to<T>(), args, begin, end, rows);
      } else if (p.dst_c == 1 && oc_count > 1) {
        write_channels_last(plan.transpose->to<T>(), args, begin, end, dst_x);
      } else {
        write_rows_strided(args, begin, end, dst_x);
      }
    }
  }
}

#define INSTANTIATE(T)                                                                                            \
  template void scatter(const Scatter<T>&, const Unit&, const Segment*, int64_t, const Sum<T>*, int64_t, int64_t, \
                        const Sum<T>*, T*);
ORTCONV_FLOAT_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace ortconv::kernels

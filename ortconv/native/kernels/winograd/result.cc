#include <algorithm>

#include "kernels/interleave/row_range.h"
#include "kernels/prefetch.h"
#include "kernels/winograd/stages.h"

namespace ortconv::kernels::winograd {
namespace {

constexpr float kNoBias = -0.0f;  // adding it changes nothing, zeros included

// A' on every axis: points that lie in_stride apart become planes: [outer step][last step, plane_stride apart][tile].
void transform_result(const Plan& plan, const Geometry& geo, const Unit& unit, const Family& family, const float* in,
                      int64_t in_stride, int64_t tiles, char* slice, float* out, int64_t outer_stride,
                      int64_t plane_stride) {
  const int last = plan.ndims - 1;
  const int64_t columns = geo.columns;
  float* buffer = reinterpret_cast<float*>(slice + geo.results);
  int64_t done = 1, left = family.points;
  for (int a = 0; a < last; ++a) {
    if (plan.axis[a].summed) continue;
    const int64_t step = plan.axis[a].step, points = points_of(unit.outer[a].filter, step);
    left /= points;
    float* to = buffer + a % 2 * plan.most_points * kMaxStep * columns;
    for (int64_t i = 0; i < done; ++i) {
      for (int64_t q = 0; q < left; ++q) {
        plan.transform->result(unit.outer[a].filter, step, in + (i * points * left + q) * in_stride, left * in_stride,
                               tiles, to + (i * step * left + q) * columns, left * columns);
      }
    }
    done *= step;
    in = to;
    in_stride = columns;
  }
  for (int64_t i = 0; i < done; ++i) {
    plan.transform->result(family.last.filter, plan.axis[last].step, in + i * left * in_stride, in_stride, tiles,
                           out + i * outer_stride, plane_stride);
  }
}

// Planes: [outer step][step of the last axis][class of the last axis][column].
template <class T>
void write_rows(const Run<T>& run, const Block& block, const DstRow* list, int64_t count, int64_t oc, float bias,
                char* slice) {
  const Plan& plan = run.plan;
  const int last = plan.ndims - 1;
  const AxisPlan& x = plan.axis[last];
  const float* planes = reinterpret_cast<const float*>(slice + run.geometry.planes);
  const int64_t columns = run.geometry.columns, tiles = block.count[last];
  const int64_t phases = x.step * x.num_classes(), all_phases = phases * x.dilation;
  const int64_t x0 = all_phases * block.begin[last] + run.geometry.axis[last].base;
  const int64_t begin = std::max<int64_t>(0, -x0);
  const int64_t end = std::min(tiles * all_phases, run.problem.dst_size[last] - x0);
  if (begin >= end) return;
  T* dst = run.dst + oc * run.problem.dst_c + x0;
  const bool special = x.dilation == 1 && phases <= kMaxPhases && run.geometry.store == Store::kCached;
  const auto interleave = special ? plan.transform->interleave_to<T>()[phases] : nullptr;
  if (interleave != nullptr) {
    for (const DstRow* row = list; row != list + count; ++row) {
      interleave(planes + row->plane, columns, tiles, begin, end, bias, dst + row->offset);
    }
    return;
  }
  const float** rows = reinterpret_cast<const float**>(slice + run.geometry.phase_rows);
  constexpr int64_t kRowsAhead = 4;
  for (const DstRow* row = list; row != list + count; ++row) {
    if (list + count - row > kRowsAhead) {  // the lines that are written in parts
      prefetch_to_write(dst + row[kRowsAhead].offset + begin);
      prefetch_to_write(dst + row[kRowsAhead].offset + end - 1);
    }
    for (int64_t j = 0; j < x.step; ++j) {
      for (int64_t v = 0; v < x.dilation; ++v) {
        for (int64_t r = 0; r < x.num_classes(); ++r) {
          rows[(j * x.dilation + v) * x.num_classes() + r] =
              planes + row->plane + (j * x.num_classes() + r) * columns + v * tiles;
        }
      }
    }
    InterleaveArgs<T> args{rows, 0, 1, 0, all_phases, &bias, dst + row->offset, 0, run.geometry.store};
    write_row_range(plan.interleave->template to<T>(), args, begin, end, rows);
  }
}

}  // namespace

void list_rows(const Plan& plan, const Geometry& geo, const ConvProblem& p, const Unit& unit, const Block& block,
               char* slice) {
  const int last = plan.ndims - 1;
  DstRow* rows = reinterpret_cast<DstRow*>(slice + geo.dst_rows);
  int64_t* counts = reinterpret_cast<int64_t*>(slice + geo.dst_row_counts);
  const int64_t row_tiles = block.count[last] * plan.axis[last].dilation;
  const int64_t piece_rows = block.columns / (block.batch_count * geo.pieces * row_tiles);
  const int64_t step_stride = plan.axis[last].step * plan.axis[last].num_classes() * geo.columns;
  for (int64_t outer = 0; outer < unit.num_outer; ++outer) {
    const int64_t* classes = unit.outer_classes.data() + outer * last;
    const DstRow* const first = rows;
    int64_t column = 0;
    for (int64_t n = 0; n < block.batch_count; ++n) {
      for (int64_t piece = 0; piece < geo.pieces; ++piece) {
        for (int64_t tile = 0; tile < piece_rows; ++tile, column += row_tiles) {
          for (int64_t step = 0; step < geo.outer_steps; ++step) {
            int64_t offset = (block.batch_begin + n) * p.dst_n;
            bool inside = true;
            for (int64_t a = last - 1, v = piece, t = tile, j = step; a >= 0; --a) {
              const AxisPlan& axis = plan.axis[a];
              const int64_t tiles = block.count[a] + geo.axis[a].halo;
              const int64_t at = (block.begin[a] + t % tiles) * axis.step + j % axis.step;
              const int64_t q = v % axis.dilation + axis.dilation * at;
              const int64_t y = q * axis.stride + phase_of(axis, geo.axis[a], classes[a]) + geo.axis[a].base;
              inside &= t % tiles < block.count[a] && y >= 0 && y < p.dst_size[a];
              offset += y * p.dst_x[a];
              v /= axis.dilation, t /= tiles, j /= axis.step;
            }
            if (inside) *rows++ = {step * step_stride + column, offset};
          }
        }
      }
    }
    counts[outer] = rows - first;
  }
}

template <class T>
void write_results(const Run<T>& run, const Unit& unit, const Block& block, int64_t oc_begin, int64_t oc_count,
                   char* slice) {
  const Plan& plan = run.plan;
  const Geometry& geo = run.geometry;
  const int last = plan.ndims - 1;
  const AxisPlan& axis = plan.axis[last];
  const int64_t row_classes = axis.num_classes(), columns = geo.columns;
  const float* family_products[kMaxFamilies];
  const float* products = reinterpret_cast<const float*>(slice + geo.products);
  for (size_t f = 0; f < unit.families.size(); ++f) {
    family_products[f] = products;
    products += unit.families[f].points * unit.families[f].num_classes * oc_count * columns;
  }
  float* planes = reinterpret_cast<float*>(slice + geo.planes);
  const DstRow* rows = reinterpret_cast<const DstRow*>(slice + geo.dst_rows);
  const int64_t* counts = reinterpret_cast<const int64_t*>(slice + geo.dst_row_counts);
  const bool activates = !run.problem.activation.is_identity();
  const int64_t num_planes = geo.outer_steps * axis.step * row_classes;
  for (int64_t oc = 0; oc < oc_count; ++oc) {
    const int64_t channel = block.group * plan.oc + oc_begin + oc;
    const float bias = run.bias == nullptr ? kNoBias : widen(run.bias[channel]);
    const DstRow* list = rows;
    for (int64_t outer = 0; outer < unit.num_outer; ++outer) {
      for (int64_t r = 0; r < row_classes; ++r) {
        const Family& family = unit.families[unit.family_of[r]];
        const int64_t cls = outer * static_cast<int64_t>(family.last_classes.size()) + unit.index_in_family[r];
        const float* in = family_products[unit.family_of[r]] + (oc * family.num_classes + cls) * columns;
        transform_result(plan, geo, unit, family, in, oc_count * family.num_classes * columns, block.multiplied, slice,
                         planes + phase_of(axis, geo.axis[last], r) * columns, axis.step * row_classes * columns,
                         row_classes * columns);
      }
      if (activates) {
        plan.activate->template run<T>(run.problem.activation, bias, num_planes * columns, planes);
      }
      write_rows(run, block, list, counts[outer], channel, activates ? kNoBias : bias, slice);
      list += counts[outer];
    }
  }
}

#define INSTANTIATE(T) template void write_results(const Run<T>&, const Unit&, const Block&, int64_t, int64_t, char*);
ORTCONV_FLOAT_SUM_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace ortconv::kernels::winograd

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "base/math.h"
#include "kernels/conv/cells.h"
#include "kernels/conv/stages.h"
#include "kernels/prefetch.h"

namespace ortconv::kernels {
namespace {

constexpr int64_t kOutside = -1;

constexpr int64_t kShortRow = 24;

// A run of src positions on the last axis, zero outside src.
struct Line {
  int64_t origin, length;
  int64_t begin, end;  // the part inside src

  Line(int64_t origin, int64_t length, int64_t src_size) : origin(origin), length(length) {
    begin = std::clamp<int64_t>(-origin, 0, length);
    end = std::clamp<int64_t>(src_size - origin, begin, length);
  }
};

template <class T>
void fill_line(const ToFloatKernel& kernel, const Line& line, const T* src, int64_t src_x, Sum<T>* out) {
  zero_cells(out, line.begin);
  if (line.begin < line.end) {
    const T* in = src + (line.origin + line.begin) * src_x;
    if (src_x == 1) {
      load_cells(kernel, in, line.end - line.begin, out + line.begin);
    } else {
      for (int64_t i = line.begin; i < line.end; ++i, in += src_x) out[i] = widen(*in);
    }
  }
  zero_cells(out + line.end, line.length - line.end);
}

// Whether the lines of these rows are rows of src that are contiguous in memory.
bool whole_rows(const Line& line, int64_t src_size, int64_t src_x, const int64_t* sources, int64_t rows) {
  if (line.origin != 0 || line.length != src_size || src_x != 1 || sources[0] == kOutside) return false;
  for (int64_t i = 1; i < rows; ++i) {
    if (sources[i] != sources[0] + i * src_size) return false;
  }
  return true;
}

// gather() where the channels of src are next to each other: rows of all channels at once.
template <class T>
void gather_channels_last(const Plan& plan, const Geometry& geo, const ConvProblem& p, const Block& block, const T* src,
                          const int64_t* sources, Sum<T>* grid) {
  using Cell = Sum<T>;
  const int last = plan.ndims - 1;
  const AxisFrame& f = geo.axis[last];
  const int64_t step = plan.axis[last].src_step, src_x = p.src_x[last];
  const int64_t plane_rows = geo.image_rows * geo.batch_block;
  const int64_t planes = geo.outer_planes * f.num_planes;
  for (int64_t c = 0; c < plan.ic; ++c) {
    Cell* channel = grid + c * geo.channel_stride;
    for (int64_t plane = 0; plane < planes; ++plane) {
      Cell* out = channel + plane * geo.plane_size;
      std::fill(out + plane_rows * f.grid, out + geo.plane_size, Cell());
    }
    std::fill(channel + planes * geo.plane_size, channel + geo.channel_stride, Cell());
  }
  src += block.group * plan.ic * p.src_c;
  for (int64_t plane = 0; plane < planes; ++plane) {
    const int64_t first =
        plane_origin(plan.op, plan.axis[last], f, p.pad[last], plane % f.num_planes) + step * block.begin[last];
    // The cells [begin, end) are inside src.
    const int64_t begin = std::clamp<int64_t>(-floor_div(first, step), 0, f.grid);
    const int64_t end = std::clamp<int64_t>(floor_div(p.src_size[last] - 1 - first, step) + 1, begin, f.grid);
    Cell* row_out = grid + plane * geo.plane_size;
    for (int64_t row = 0; row < plane_rows; ++row, row_out += f.grid) {
      const int64_t source = sources[plane / f.num_planes * plane_rows + row];
      const bool outside = source == kOutside || begin == end;
      for (int64_t c = 0; c < plan.ic; ++c) {
        Cell* out = row_out + c * geo.channel_stride;
        std::fill(out, out + (outside ? f.grid : begin), Cell());
        if (!outside) std::fill(out + end, out + f.grid, Cell());
      }
      if (outside) continue;
      plan.transpose->from<T>()(src + source + (first + begin * step) * src_x, step * src_x, end - begin, plan.ic,
                                row_out + begin, geo.channel_stride);
    }
  }
  std::fill_n(grid + plan.ic * geo.channel_stride, kGridSlack, Cell());  // the last tile may read beyond
}

}  // namespace

void list_sources(const Plan& plan, const Geometry& geo, const ConvProblem& p, const Block& block, int64_t* sources) {
  const int last = plan.ndims - 1;
  for (int64_t plane = 0; plane < geo.outer_planes; ++plane) {
    for (int64_t n = 0; n < geo.batch_block; ++n) {
      for (int64_t row = 0; row < geo.image_rows; ++row) {
        int64_t source = n < block.batch_count ? (block.batch_begin + n) * p.src_n : kOutside;
        int64_t plane_rest = plane, row_rest = row;
        for (int a = last - 1; a >= 0 && source != kOutside; --a) {
          const AxisFrame& f = geo.axis[a];
          const int64_t x = plane_origin(plan.op, plan.axis[a], f, p.pad[a], plane_rest % f.num_planes) +
                            plan.axis[a].src_step * (block.begin[a] + row_rest % f.grid);
          source = x >= 0 && x < p.src_size[a] ? source + x * p.src_x[a] : kOutside;
          plane_rest /= f.num_planes;
          row_rest /= f.grid;
        }
        *sources++ = source;
      }
    }
  }
}

int64_t line_capacity(const AxisPlan& axis, const AxisFrame& frame) {
  return frame.grid * axis.src_step + (axis.ker + 1) * axis.dilation + 2 * kStep;
}

template <class T>
void gather(const Plan& plan, const Geometry& geo, const ConvProblem& p, const Block& block, const T* src,
            const GatherBuffers<Sum<T>>& buffers, Sum<T>* grid) {
  using Cell = Sum<T>;
  const int last = plan.ndims - 1;
  if (p.src_c == 1 && p.src_x[last] != 1 && plan.ic > 1) {
    gather_channels_last(plan, geo, p, block, src, buffers.sources, grid);
    return;
  }
  const AxisFrame& f = geo.axis[last];
  const int64_t step = plan.axis[last].src_step;
  const int64_t plane_rows = geo.image_rows * geo.batch_block;
  const auto origin_of = [&](int64_t plane) {
    return plane_origin(plan.op, plan.axis[last], f, p.pad[last], plane) + step * block.begin[last];
  };
  const auto fill = [&](const Line& line, int64_t source, const T* channel, Cell* out) {
    if (source == kOutside) {
      zero_cells(out, line.length);
    } else {
      fill_line(*plan.widen, line, channel + source, p.src_x[last], out);
    }
  };
  // Rows that are short, strided or to be widened are first laid out in a buffer, from which all planes are then cut:
  // kLines at a time, so that no copy reads what is still on its way to the cache.
  const bool staged = step > 1 || (f.num_planes > 1 && (f.grid < kShortRow || !std::is_same_v<T, Cell>));
  int64_t low = origin_of(0), high = low;
  for (int64_t plane = 1; plane < f.num_planes; ++plane) {
    low = std::min(low, origin_of(plane));
    high = std::max(high, origin_of(plane));
  }
  const Line whole(low, (f.grid - 1) * step + 1 + high - low, p.src_size[last]);
  const int64_t pitch = line_capacity(plan.axis[last], f);
  constexpr int64_t kChannelsAhead = 3, kShortRun = 4096;
  const bool short_runs = p.src_x[last] == 1 && plane_rows * f.grid * static_cast<int64_t>(sizeof(T)) <= kShortRun;

  src += block.group * plan.ic * p.src_c;
  for (int64_t c = 0; c < plan.ic; ++c, src += p.src_c, grid += geo.channel_stride) {
    for (int64_t row = 0; short_runs && c + kChannelsAhead < plan.ic && row < plane_rows; ++row) {
      const int64_t source = buffers.sources[row];
      if (source == kOutside) continue;
      prefetch(src + kChannelsAhead * p.src_c + source + whole.origin + whole.begin, whole.end - whole.begin);
    }
    Cell* planes = grid;
    for (int64_t outer = 0; outer < geo.outer_planes; ++outer, planes += f.num_planes * geo.plane_size) {
      const int64_t* sources = buffers.sources + outer * plane_rows;
      for (int64_t row = 0, rows; row < plane_rows; row += rows) {
        rows = std::min(kLines, geo.image_rows - row % geo.image_rows);  // of one image
        for (int64_t i = 0; staged && i < rows; ++i) fill(whole, sources[row + i], src, buffers.lines + i * pitch);
        for (int64_t plane = 0; plane < f.num_planes; ++plane) {
          Cell* out = planes + plane * geo.plane_size + row * f.grid;
          if (!staged) {
            const Line line(origin_of(plane), f.grid, p.src_size[last]);
            if (whole_rows(line, p.src_size[last], p.src_x[last], sources + row, rows)) {
              load_cells(*plan.widen, src + sources[row], rows * f.grid, out);
              continue;
            }
            for (int64_t i = 0; i < rows; ++i) fill(line, sources[row + i], src, out + i * f.grid);
            continue;
          }
          const Cell* in = buffers.lines + origin_of(plane) - low;
          for (int64_t i = 0; i < rows; ++i, in += pitch, out += f.grid) {
            if (step == 1) {
              for (int64_t u = 0; u < f.grid; u += kStep) std::memcpy(out + u, in + u, kStep * sizeof(Cell));
            } else {
              for (int64_t u = 0; u < f.grid; ++u) out[u] = in[u * step];
            }
          }
        }
      }
      for (int64_t plane = 0; plane < f.num_planes; ++plane) {
        Cell* out = planes + plane * geo.plane_size;
        std::fill(out + plane_rows * f.grid, out + geo.plane_size, Cell());
      }
    }
    std::fill(planes, grid + geo.channel_stride, Cell());
  }
  std::fill_n(grid, kGridSlack, Cell());  // the last tile may read beyond the last channel
}

#define INSTANTIATE(T)                                                                           \
  template void gather(const Plan&, const Geometry&, const ConvProblem&, const Block&, const T*, \
                       const GatherBuffers<Sum<T>>&, Sum<T>*);
ORTCONV_FLOAT_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace ortconv::kernels

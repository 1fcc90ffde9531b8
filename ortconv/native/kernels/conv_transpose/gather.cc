#include <algorithm>
#include <cstring>

#include "kernels/conv_transpose/stages.h"

namespace ortconv::kernels {
namespace {

constexpr int64_t kOutside = -1;

// A row of the grid is written left to right in steps of kStep floats; a step may run over into what is written next.
constexpr int64_t kStep = 8;

void zero(float* dst, int64_t n) {
  constexpr float kZeros[kStep] = {};
  for (int64_t i = 0; i < n; i += kStep) std::memcpy(dst + i, kZeros, sizeof(kZeros));
}

void copy(const float* src, int64_t n, float* dst) {
  if (n < kStep) {
    for (int64_t i = 0; i < n; ++i) dst[i] = src[i];
    return;
  }
  for (int64_t i = 0; i < n - kStep; i += kStep) std::memcpy(dst + i, src + i, kStep * sizeof(float));
  std::memcpy(dst + n - kStep, src + n - kStep, kStep * sizeof(float));
}

// For every row of the grid of the axes before the last, [planes][image][grid axes]: the offset into src of the row
// it holds, or kOutside.
int64_t list_sources(const Plan& plan, const Geometry& geo, const ConvProblem& p, const Block& block,
                     int64_t* sources) {
  const int last = plan.ndims - 1;
  int64_t planes = 1, rows = 1;
  for (int a = 0; a < last; ++a) {
    planes *= geo.axis[a].num_planes;
    rows *= geo.axis[a].grid;
  }
  int64_t count = 0;
  for (int64_t plane = 0; plane < planes; ++plane) {
    for (int64_t n = 0; n < geo.batch_block; ++n) {
      for (int64_t row = 0; row < rows; ++row) {
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
        sources[count++] = source;
      }
    }
  }
  return planes;
}

}  // namespace

void gather(const Plan& plan, const Geometry& geo, const ConvProblem& p, const Block& block, const float* src,
            int64_t* sources, float* grid) {
  const int last = plan.ndims - 1;
  const AxisFrame& f = geo.axis[last];
  const int64_t outer_planes = list_sources(plan, geo, p, block, sources);
  const int64_t plane_rows = geo.plane_size / std::max<int64_t>(f.grid, 1);
  const int64_t step = plan.axis[last].src_step, src_step = step * p.src_x[last];
  src += block.group * plan.ic * p.src_c;
  for (int64_t c = 0; c < plan.ic; ++c, src += p.src_c, grid += geo.channel_stride) {
    float* out = grid;
    for (int64_t outer = 0; outer < outer_planes; ++outer) {
      for (int64_t x_plane = 0; x_plane < f.num_planes; ++x_plane) {
        // Cell u of a row holds src element x0 + step * u.
        const int64_t x0 = plane_origin(plan.op, plan.axis[last], f, p.pad[last], x_plane) + step * block.begin[last];
        const int64_t begin = std::clamp<int64_t>(-floor_div(x0, step), 0, f.grid);
        const int64_t end = std::clamp<int64_t>(-floor_div(x0 - p.src_size[last], step), begin, f.grid);
        const int64_t first = begin < end ? (x0 + step * begin) * p.src_x[last] : 0;
        const int64_t* source = sources + outer * plane_rows;
        for (int64_t row = 0; row < plane_rows; ++row, out += f.grid) {
          if (source[row] == kOutside) {
            zero(out, f.grid);
            continue;
          }
          zero(out, begin);
          const float* in = src + source[row] + first;
          if (src_step == 1) {
            copy(in, end - begin, out + begin);
          } else {
            for (int64_t u = begin; u < end; ++u) out[u] = in[(u - begin) * src_step];
          }
          zero(out + end, f.grid - end);
        }
      }
    }
    std::fill(out, grid + geo.channel_stride, 0.0f);
  }
  std::fill_n(grid, kGridSlack, 0.0f);  // the last tile may read beyond the last channel
}

}  // namespace ortconv::kernels

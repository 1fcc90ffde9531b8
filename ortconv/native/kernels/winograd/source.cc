#include <algorithm>
#include <type_traits>

#include "base/math.h"
#include "kernels/conv/geometry.h"
#include "kernels/prefetch.h"
#include "kernels/winograd/stages.h"

namespace ortconv::kernels::winograd {
namespace {

// An axis of a block. Of filtered axes before the last the points of the axes after them are buffered, for all src
// positions that the windows reach: [point][position % step][position / step][columns of the axes after it]. So what
// the windows of all tiles have at element e is contiguous.
struct SourceAxis {
  int64_t begin;         // src position of the first window element, of residue 0
  int64_t rows;          // window elements
  int64_t row;           // columns of the axes after this one
  int64_t points;        // of these axes
  int64_t plane, point;  // strides of the buffer
  float* buffer;
};

// The windows of one piece and channel.
template <class T>
class Source {
 public:
  Source(const Run<T>& run, const Unit& unit, const Block& block, char* slice);

  int64_t residue[kMaxAxes] = {};  // of the axes before the last
  int64_t ahead = 0;               // how far on what is read next lies, or zero
  uint32_t largest = 0;

  // Points of the axes from a on, at one src position of those before: out[point * stride + tile]. `from` is null
  // outside src.
  void transform(int a, const T* from, float* out, int64_t stride);

 private:
  void transform_last(const T* from, float* out, int64_t stride);
  // A row of src, readable where it is inside src, from position x to the end of the windows.
  const float* widened(const T* from, int64_t x);
  // The points of `tiles` tiles whose windows begin with element 0 of the row; elements outside [begin, end) are zero.
  void split(const float* row, int64_t begin, int64_t end, int64_t tiles, float* out, int64_t stride);

  const Plan& plan_;
  const ConvProblem& problem_;
  const Unit& unit_;
  const Block& block_;
  const int last_;
  SourceAxis axis_[kMaxAxes];
  int64_t skip_[kMaxAxes];
  Cut cuts_[kMaxFamilies];
  int64_t num_cuts_;
  float* line_;
  float* widened_;
};

template <class T>
Source<T>::Source(const Run<T>& run, const Unit& unit, const Block& block, char* slice)
    : plan_(run.plan),
      problem_(run.problem),
      unit_(unit),
      block_(block),
      last_(run.plan.ndims - 1),
      num_cuts_(static_cast<int64_t>(unit.families.size())),
      line_(reinterpret_cast<float*>(slice + run.geometry.line)),
      widened_(reinterpret_cast<float*>(slice + run.geometry.widened)) {
  const Geometry& geo = run.geometry;
  for (int64_t f = 0; f < num_cuts_; ++f) {
    const Family& family = unit.families[f];
    cuts_[f] = {family.last.filter, skip_of(plan_.axis[last_], geo.axis[last_], family.last_classes[0])};
  }
  int64_t points = 1;
  for (int a = last_; a >= 0; --a) {
    const AxisPlan& axis = plan_.axis[a];
    SourceAxis& s = axis_[a];
    s.begin = geo.axis[a].origin + axis.dilation * block.begin[a] * axis.step;
    s.rows = (block.count[a] - 1) * axis.step + axis.window;
    s.row = block.row[a];
    s.points = points;
    if (a == last_) {
      points = unit.points / unit.outer_points;
    } else if (!axis.summed) {
      skip_[a] = skip_of(axis, geo.axis[a], unit.outer_classes[a]);
      s.plane = geo.plane_floats(plan_, a, s.row);
      s.point = s.plane * axis.step;
      s.buffer = reinterpret_cast<float*>(slice + geo.inner[a]);
      points *= points_of(unit.outer[a].filter, axis.step);
    }
  }
}

template <class T>
void Source<T>::transform(int a, const T* from, float* out, int64_t stride) {
  if (a == last_ || a == kMaxAxes - 1) return transform_last(from, out, stride);
  const SourceAxis& s = axis_[a];
  const AxisPlan& axis = plan_.axis[a];
  int64_t x = s.begin + residue[a], remainder = 0;
  float* row = axis.summed ? out : s.buffer;
  for (int64_t i = 0; i < s.rows; ++i, x += axis.dilation) {
    const bool inside = from != nullptr && x >= 0 && x < problem_.src_size[a];
    transform(a + 1, inside ? from + x * problem_.src_x[a] : nullptr, row + remainder * s.plane,
              axis.summed ? stride : s.point);
    if (++remainder == axis.step) remainder = 0, row += s.row;
  }
  if (axis.summed) return;
  const float* in[kMaxPoints] = {};
  for (int64_t e = skip_[a]; e < std::min(axis.window, skip_[a] + kMaxPoints); ++e) {
    in[e - skip_[a]] = s.buffer + e % axis.step * s.plane + e / axis.step * s.row;
  }
  for (int64_t q = 0; q < s.points; ++q) {
    plan_.transform->source(unit_.outer[a].filter, axis.step, in, block_.count[a] * s.row, out + q * stride,
                            s.points * stride);
    for (const float*& element : in) element += s.point;
  }
}

template <class T>
void Source<T>::transform_last(const T* from, float* out, int64_t stride) {
  const AxisPlan& axis = plan_.axis[last_];
  const int64_t tiles = block_.count[last_], size = problem_.src_size[last_];
  if (from == nullptr) {
    // As far as other rows write: vectors of what memory held would be transformed and multiplied with them.
    const int64_t points = unit_.points / unit_.outer_points;
    const int64_t written = (axis.dilation - 1) * tiles + align_up(tiles, kLanes);
    for (int64_t q = 0; q < points; ++q) std::fill_n(out + q * stride, written, 0.0f);
    return;
  }
  int64_t x = axis_[last_].begin;
  if (ahead != 0) {
    const int64_t begin = std::max<int64_t>(x, 0), end = std::min(x + axis_[last_].rows * axis.dilation, size);
    prefetch(from + ahead + begin, end - begin);
  }
  const float* row = widened(from, x);  // its element x is the first one of the windows
  if (axis.dilation == 1) return split(row + x, -x, std::min(size - x, axis_[last_].rows), tiles, out, stride);
  for (int64_t v = 0; v < axis.dilation; ++v, ++x, out += tiles) {
    // Element i of the row is src[x + dilation * i].
    const int64_t begin = ceil_div(std::max<int64_t>(-x, 0), axis.dilation);
    const int64_t end = std::min(floor_div(size - 1 - x, axis.dilation) + 1, axis_[last_].rows);
    for (int64_t i = begin; i < end; ++i) line_[i] = row[x + i * axis.dilation];
    split(line_, begin, end, tiles, out, stride);
  }
}

template <class T>
const float* Source<T>::widened(const T* from, int64_t x) {
  if constexpr (std::is_same_v<T, float>) {
    return from;
  } else {
    const SourceAxis& s = axis_[last_];
    const int64_t begin = std::max<int64_t>(x, 0);
    const int64_t end = std::min(x + s.rows * plan_.axis[last_].dilation, problem_.src_size[last_]);
    if (begin < end) plan_.widen->run(from + begin, end - begin, widened_ + begin - x);
    return widened_ - x;
  }
}

template <class T>
void Source<T>::split(const float* row, int64_t begin, int64_t end, int64_t tiles, float* out, int64_t stride) {
  const int64_t step = plan_.axis[last_].step;
  largest = std::max(largest, plan_.transform->split(cuts_, num_cuts_, step, row, begin, end, tiles, out, stride));
}

}  // namespace

template <class T>
uint32_t transform_source(const Run<T>& run, const Unit& unit, const Block& block, char* slice) {
  const Plan& plan = run.plan;
  const Geometry& geo = run.geometry;
  const ConvProblem& p = run.problem;
  float* out = reinterpret_cast<float*>(slice);
  Source<T> source(run, unit, block, slice);
  const int64_t piece_columns = block.columns / (block.batch_count * geo.pieces);
  const T* from = run.src + block.batch_begin * p.src_n + block.group * plan.ic * p.src_c;
  // What is written beyond a piece is overwritten by the next piece, channel or point.
  constexpr int64_t kChannelsAhead = 4;
  for (int64_t c = 0; c < plan.ic; ++c, from += p.src_c) {
    source.ahead = c + kChannelsAhead < plan.ic ? kChannelsAhead * p.src_c : 0;
    float* to = out + c * geo.columns;
    for (int64_t n = 0; n < block.batch_count; ++n) {
      for (int64_t piece = 0; piece < geo.pieces; ++piece, to += piece_columns) {
        for (int64_t a = plan.ndims - 2, rest = piece; a >= 0; --a) {
          source.residue[a] = rest % plan.axis[a].dilation;
          rest /= plan.axis[a].dilation;
        }
        source.transform(0, from + n * p.src_n, to, geo.point_stride(plan));
      }
    }
  }
  return source.largest;
}

#define INSTANTIATE(T) template uint32_t transform_source(const Run<T>&, const Unit&, const Block&, char*);
ORTCONV_FLOAT_SUM_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace ortconv::kernels::winograd

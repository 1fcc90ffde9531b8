#include "kernels/conv/depthwise.h"

#include <algorithm>
#include <type_traits>

#include "base/math.h"
#include "kernels/conv/cells.h"
#include "kernels/conv/depthwise_layout.h"
#include "kernels/conv/typed_run.h"

namespace ortconv::kernels {
namespace {

constexpr int64_t kMostWeights = 1 << 15;  // laid out for the kernel, of one channel
constexpr int64_t kMostRowTaps = 1 << 12;  // rows of src by rows of dst of one position
constexpr int64_t kMostChannels = 4;       // of dst per group: with more, a GEMM shares what it loads among them

template <class T>
using Run = TypedRun<T, DepthwiseLayout>;

// The state of a thread.
template <class T>
class Worker {
 public:
  Worker(const Run<T>& run, char* slice)
      : plan_(run.plan),
        p_(run.problem),
        layout_(run.layout),
        run_(run),
        rows_(reinterpret_cast<const Cell**>(slice + layout_.slice_rows)),
        weight_rows_(reinterpret_cast<const Cell* const**>(slice + layout_.slice_weight_rows)),
        taps_(reinterpret_cast<const Cell**>(slice + layout_.slice_taps)),
        shifts_(reinterpret_cast<int64_t*>(slice + layout_.slice_shifts)),
        offsets_(reinterpret_cast<int64_t*>(slice + layout_.slice_offsets)),
        index_(reinterpret_cast<int32_t*>(slice + layout_.slice_index)),
        weight_of_(index_ + layout_.most_steps * layout_.patterns * layout_.lanes),
        weights_(reinterpret_cast<Cell*>(slice + layout_.slice_weights)),
        tap_row_(reinterpret_cast<Cell*>(slice + layout_.slice_tap_row)),
        copy_(reinterpret_cast<Cell*>(slice + layout_.slice_copy)),
        lines_(reinterpret_cast<Cell*>(slice + layout_.slice_lines)),
        dst_rows_(rows_of(layout_)) {
    list_steps();
    list_row_taps();
    complete_ = is_complete();
    // Vectors reach beyond the rows of the copy. Products of what memory held can take a hundred times as long.
    zero_cells(copy_, layout_.copy_rows * layout_.pitch + kCopyOverrun);
  }

  void run_items(int64_t begin, int64_t end) {
    int64_t expanded = -1;
    for (int64_t item = begin; item < end; ++item) {
      const int64_t image = item / layout_.num_blocks;
      const int64_t oc = layout_.by_images ? image % p_.oc : image / p_.mb;
      const int64_t n = layout_.by_images ? image / p_.oc : image % p_.mb;
      if (oc != expanded) expand_weights(oc);
      expanded = oc;
      run_block(oc, n, item % layout_.num_blocks);
    }
    if (layout_.store == Store::kStream) plan_.interleave->fence();
  }

 private:
  using Cell = Sum<T>;

  const DepthwiseAxis& x_axis() const { return layout_.axis[layout_.last]; }

  // Lists the steps of a row kernel: the shifts of the last axis, and the lanes that have a tap there.
  void list_steps() {
    const DepthwiseAxis& x = x_axis();
    const int64_t lanes = layout_.lanes, patterns = layout_.patterns;
    num_steps_ = 0;
    for (int64_t k = 0; k < x.ker; ++k) {
      const int64_t shift = x.shift_of(plan_.op, k);
      const int64_t before = k == 0 ? -1 : x.shift_of(plan_.op, k - 1);
      const bool is_new = k == 0 || shift != before;  // taps of the same shift follow each other
      num_steps_ += is_new ? 1 : 0;
      for (int64_t pattern = 0; pattern < patterns; ++pattern) {
        const int64_t at = (num_steps_ - 1) * patterns + pattern;
        const int64_t from = first_position(pattern);
        offsets_[at] = from - shift;
        for (int64_t l = 0; l < lanes; ++l) {
          const int64_t i = at * lanes + l;
          const int64_t place = pattern * lanes + l + x.base;
          if (is_new) index_[i] = -1, weight_of_[i] = static_cast<int32_t>(x.ker);
          if (place % x.classes != x.class_of(plan_.op, k)) continue;
          index_[i] = static_cast<int32_t>(place / x.classes - from);
          weight_of_[i] = static_cast<int32_t>(k);
        }
      }
    }
  }

  // The position of the first lane of vector v.
  int64_t first_position(int64_t v) const { return (v * layout_.lanes + x_axis().base) / x_axis().classes; }

  // Lists every row of src that a position may need: its shift on each axis, and its weights for every row of dst.
  void list_row_taps() {
    const int last = layout_.last;
    num_rows_ = 0;
    const int64_t tap_weights = weights_of_tap();
    for (int64_t tap = 0; tap < layout_.outer_taps; ++tap) {
      int64_t shift[kMaxSpatial], row = 0, scale = 1;
      for (int64_t a = last - 1, rest = tap; a >= 0; --a) {
        const DepthwiseAxis& axis = layout_.axis[a];
        const int64_t k = rest % axis.ker;
        rest /= axis.ker;
        shift[a] = axis.shift_of(plan_.op, k);
        row += axis.class_of(plan_.op, k) * scale;
        scale *= axis.classes;
      }
      int64_t r = 0;
      while (r < num_rows_ && !std::equal(shift, shift + last, shifts_ + r * last)) ++r;
      if (r == num_rows_) {
        std::copy_n(shift, last, shifts_ + r * last);
        std::fill_n(taps_ + r * dst_rows_, dst_rows_, nullptr);
        ++num_rows_;
      }
      taps_[r * dst_rows_ + row] = weights_ + tap * tap_weights;
    }
  }

  // See DepthwiseArgs.
  bool is_complete() const {
    const int64_t lanes = layout_.patterns * layout_.lanes;
    for (int64_t i = 0; !layout_.plain && i < num_steps_ * lanes; ++i) {
      if (index_[i] < 0 || index_[i] != index_[i % lanes]) return false;
    }
    const Cell* const* const end = taps_ + num_rows_ * dst_rows_;
    return std::find(const_cast<const Cell* const*>(taps_), end, nullptr) == end;
  }

  // The number of weights of one tap of the axes before the last.
  int64_t weights_of_tap() const { return num_steps_ * (layout_.plain ? 1 : layout_.patterns * layout_.lanes); }

  void expand_weights(int64_t oc) {
    const bool transposed = plan_.op == Op::kConvTranspose;
    const int64_t group = oc / plan_.oc;
    const T* wei = run_.wei + (transposed ? group * p_.wei_0 + oc % plan_.oc * p_.wei_1 : oc * p_.wei_0);
    const int64_t count = weights_of_tap();
    const int64_t wei_x = p_.wei_x[layout_.last];
    Cell* out = weights_;
    for (int64_t tap = 0; tap < layout_.outer_taps; ++tap, out += count) {
      const T* row = wei + offset_of(tap, p_.ker, p_.wei_x, layout_.last);
      if (layout_.plain) {
        for (int64_t k = 0; k < num_steps_; ++k) out[k] = widen(row[k * wei_x]);
        continue;
      }
      const int64_t ker = x_axis().ker;
      copy_elements(row, wei_x, ker, tap_row_);
      tap_row_[ker] = 0;
      const Cell* taps = tap_row_;
      const int32_t* weight_of = weight_of_;
      for (int64_t i = 0; i < count; ++i) out[i] = taps[weight_of[i]];
    }
  }

  // Copies rows [low, high) of a channel of src: `needed` positions from x_begin on, with zeros outside src.
  void copy_rows(const T* in, const int64_t* low, const int64_t* high, int64_t x_begin, int64_t needed) {
    const int last = layout_.last;
    const int64_t begin = std::clamp<int64_t>(-x_begin, 0, needed);
    const int64_t end = std::clamp<int64_t>(p_.src_size[last] - x_begin, begin, needed);
    Cell* out = copy_;
    for_each_row(p_, in + (x_begin + begin) * p_.src_x[last], low, high, [&](const T* row) {
      zero_cells(out, begin);
      copy_elements(row, p_.src_x[last], end - begin, out + begin);
      zero_cells(out + end, needed - end);
      out += layout_.pitch;
    });
  }

  void copy_elements(const T* in, int64_t stride, int64_t count, Cell* out) {
    if (stride == 1) {
      load_cells(*plan_.widen, in, count, out);
    } else {
      for (int64_t i = 0; i < count; ++i, in += stride) out[i] = widen(*in);
    }
  }

  void run_block(int64_t oc, int64_t n, int64_t block) {
    const int last = layout_.last;
    const int64_t v_begin = block % layout_.num_row_blocks * layout_.block_vectors;
    const int64_t v_end = std::min(layout_.vectors, v_begin + layout_.block_vectors);
    int64_t begin[kMaxSpatial], end[kMaxSpatial];  // positions
    int64_t low[kMaxSpatial], high[kMaxSpatial];   // rows of src
    int64_t copy_stride[kMaxSpatial], copied = 1;
    block /= layout_.num_row_blocks;
    for (int a = last - 1; a >= 0; --a) {
      const DepthwiseAxis& axis = layout_.axis[a];
      begin[a] = axis.first + block % axis.num_blocks * axis.block;
      end[a] = std::min(begin[a] + axis.block, axis.first + axis.positions);
      block /= axis.num_blocks;
      low[a] = std::clamp<int64_t>(begin[a] * axis.step - axis.least_shift - axis.spread, 0, p_.src_size[a]);
      high[a] = std::clamp<int64_t>((end[a] - 1) * axis.step - axis.least_shift + 1, low[a], p_.src_size[a]);
      copy_stride[a] = copied * layout_.pitch;
      copied *= high[a] - low[a];
    }
    const int64_t x_begin = first_position(v_begin) - x_axis().least_shift - x_axis().spread;
    const Cell* origin = copy_ + first_position(v_begin) - x_begin - first_position(0);
    const int64_t y = v_begin * layout_.lanes;
    const int64_t count = std::min(v_end * layout_.lanes, p_.dst_size[last]) - y;
    const int64_t x_end = (y + count - 1 + x_axis().base) / x_axis().classes - x_axis().least_shift + 1;
    copy_rows(run_.src + n * p_.src_n + oc / plan_.oc * p_.src_c, low, high, x_begin, x_end - x_begin);
    T* dst = run_.dst + n * p_.dst_n + oc * p_.dst_c + y;
    int64_t at[kMaxSpatial];
    std::copy_n(begin, last, at);
    while (true) {
      int64_t rows = 0;
      for (int64_t r = 0; r < num_rows_; ++r) {
        const Cell* row = origin;
        bool inside = true;
        for (int a = 0; a < last && inside; ++a) {
          const int64_t x = at[a] * layout_.axis[a].step - shifts_[r * last + a];
          inside = x >= 0 && x < p_.src_size[a];
          row += (x - low[a]) * copy_stride[a];
        }
        if (!inside) continue;
        rows_[rows] = row;
        weight_rows_[rows++] = taps_ + r * dst_rows_;
      }
      const Span span = span_at(at, end, rows);
      run_rows(oc, at, span, dst, count);
      int a = last - 1;
      if (a >= 0) at[a] += span.positions - 1;
      while (a >= 0 && ++at[a] == end[a]) at[a] = begin[a], --a;
      if (a < 0) return;
    }
  }

  // Whether the kernel writes dst directly; otherwise it writes sums, which are then activated.
  bool is_sum_in_place() const { return p_.activation.is_identity(); }

  // Consecutive positions of the axis before the last that read the same taps, at shifted places.
  struct Span {
    int64_t positions, src_step, dst_step;
    int64_t src_rows;
  };

  Span span_at(const int64_t* at, const int64_t* end, int64_t src_rows) const {
    const int outer = layout_.last - 1;
    if (outer < 0) return {1, 0, 0, src_rows};
    const DepthwiseAxis& axis = layout_.axis[outer];
    bool inner = is_sum_in_place();
    for (int a = 0; a <= outer; ++a) {
      inner = inner && layout_.axis[a].inner_begin <= at[a] && at[a] < layout_.axis[a].inner_end;
    }
    return {inner ? std::min(end[outer], axis.inner_end) - at[outer] : 1, axis.step * layout_.pitch,
            axis.classes * p_.dst_x[outer], src_rows};
  }

  // Computes all rows of dst of some positions.
  void run_rows(int64_t oc, const int64_t* at, const Span& span, T* dst, int64_t count) {
    const int last = layout_.last;
    for (int64_t first = 0, rows; first < dst_rows_; first += rows) {
      rows = depthwise_rows_of(dst_rows_ - first);
      T* to[kMaxDepthwiseRows];  // null: outside dst
      bool any = false;
      for (int64_t i = 0; i < rows; ++i) {
        to[i] = dst;
        bool inside = true;
        for (int64_t a = last - 1, rest = first + i; a >= 0; --a) {
          const DepthwiseAxis& axis = layout_.axis[a];
          const int64_t y = at[a] * axis.classes + rest % axis.classes - axis.base;
          rest /= axis.classes;
          inside = inside && y >= 0 && y < p_.dst_size[a];
          to[i] += y * p_.dst_x[a];
        }
        if (!inside) to[i] = nullptr;
        any = any || inside;
      }
      if (any) run_kernels(oc, to, span, rows, count);
      for (int64_t r = 0; r < span.src_rows; ++r) weight_rows_[r] += rows;
    }
  }

  // Runs the kernel, and the activation, for some of the rows.
  void run_kernels(int64_t oc, T* const* to, const Span& span, int64_t rows, int64_t count) {
    const Cell none = -Cell(), bias = run_.bias == nullptr ? none : Cell(widen(run_.bias[oc]));
    if (is_sum_in_place()) {
      run_kernel(span, to, rows, count, bias);
    } else if constexpr (!std::is_same_v<T, double>) {  // which have no activation
      Cell* sums[kMaxDepthwiseRows];
      for (int64_t i = 0; i < rows; ++i) sums[i] = line(i);
      run_kernel(span, sums, rows, count, none);
      for (int64_t i = 0; i < rows; ++i) {
        if (to[i] == nullptr) continue;
        const Cell* row = sums[i];
        plan_.activate->run<T>(p_.activation, bias, count, sums[i]);
        plan_.interleave->to<T>()({&row, 0, 1, count, 1, nullptr, to[i], 0, layout_.store});
      }
    }
  }

  // Rows outside dst are computed with the others, into unused memory.
  template <class Out>
  void run_kernel(const Span& span, Out* const* dst, int64_t rows, int64_t count, Cell bias) {
    Out* to[kMaxDepthwiseRows];
    bool stream = layout_.store == Store::kStream && span.dst_step * sizeof(Out) % 64 == 0;
    for (int64_t i = 0; i < rows; ++i) {
      to[i] = dst[i] == nullptr ? reinterpret_cast<Out*>(line(i)) : dst[i];
      stream = stream && reinterpret_cast<uintptr_t>(to[i]) % 64 == 0;
    }
    plan_.depthwise->run(DepthwiseArgs<Out>{
        span.positions, span.src_step, span.dst_step, span.src_rows, rows_, weight_rows_, num_steps_, layout_.patterns,
        layout_.period, offsets_, layout_.plain ? nullptr : index_, rows, to, count, bias, complete_, stream});
  }

  Cell* line(int64_t i) { return lines_ + i * layout_.block_vectors * layout_.lanes; }

  const Plan& plan_;
  const ConvProblem& p_;
  const DepthwiseLayout& layout_;
  const Run<T>& run_;
  const Cell** rows_;
  const Cell* const** weight_rows_;
  const Cell** taps_;
  int64_t* shifts_;
  int64_t* offsets_;
  int32_t* index_;
  int32_t* weight_of_;  // [step][pattern][lane]: the tap, or the number of them where there is none
  Cell* weights_;
  Cell* tap_row_;
  Cell* copy_;
  Cell* lines_;
  int64_t dst_rows_, num_steps_ = 0, num_rows_ = 0;
  bool complete_;
};

}  // namespace

bool can_run_depthwise(const Plan& plan, const ConvProblem& p) {
  const int last = plan.ndims - 1;
  if (plan.ic != 1 || plan.oc > kMostChannels || p.dst_x[last] != 1) return false;
  if (plan.op == Op::kConv && p.stride[last] != 1) return false;
  for (int a = 0; a <= last; ++a) {
    if (p.dst_size[a] == 0 || p.src_size[a] == 0) return false;
  }
  const DepthwiseLayout layout(plan, p, 1);
  if (!layout.plain && !plan.depthwise->picks_fast) return false;
  return p.mb > 0 && layout.row_taps <= kMostRowTaps &&
         layout.outer_taps * layout.most_steps * layout.patterns * layout.lanes <= kMostWeights;
}

size_t depthwise_scratch_bytes(const Plan& plan, const ConvProblem& problem, int threads) {
  const DepthwiseLayout layout(plan, problem, threads);
  return layout.slice_size * static_cast<size_t>(layout.num_slices);
}

void run_depthwise(const Plan& plan, const ConvProblem& problem, const void* src, const void* wei, const void* bias,
                   void* dst, void* scratch, const Parallel& parallel) {
  with_typed_run(plan, problem, DepthwiseLayout(plan, problem, parallel.threads), src, wei, bias, dst, scratch,
                 [&](const auto& run) { run_workers<Worker>(run, parallel); });
}

}  // namespace ortconv::kernels

#include "kernels/conv/channel_lanes.h"

#include <algorithm>
#include <type_traits>

#include "base/math.h"
#include "kernels/conv/cells.h"
#include "kernels/conv/channel_lanes_layout.h"
#include "kernels/conv/typed_run.h"

namespace ortconv::kernels {
namespace {

using channel_lanes::AxisTap;
using channel_lanes::ClassPositions;
using channel_lanes::Layout;

template <class T>
using Run = TypedRun<T, Layout>;

// The state of a thread.
template <class T>
class Worker {
 public:
  Worker(const Run<T>& run, char* slice)
      : plan_(run.plan),
        p_(run.problem),
        layout_(run.layout),
        run_(run),
        lanes_(layout_.lanes),
        rows_(reinterpret_cast<const Cell**>(slice + layout_.slice_rows)),
        weight_rows_(reinterpret_cast<const Cell* (*)[kMaxLaneRows]>(slice + layout_.slice_weight_rows)),
        axis_taps_(reinterpret_cast<AxisTap*>(slice + layout_.slice_axis_taps)),
        src_offset_(reinterpret_cast<int64_t*>(slice + layout_.slice_steps)),
        weight_offset_(src_offset_ + x_axis().ker),
        class_begin_(weight_offset_ + x_axis().ker),
        classes_(reinterpret_cast<ClassPositions*>(slice + layout_.slice_classes)),
        bias_(reinterpret_cast<Cell*>(slice + layout_.slice_bias)),
        weights_(reinterpret_cast<Cell*>(slice + layout_.slice_weights)),
        copy_(reinterpret_cast<Cell*>(slice + layout_.slice_copy)),
        tile_(reinterpret_cast<Cell*>(slice + layout_.slice_tile)) {
    list_steps();
    list_axis_taps();
  }

  void run_items(int64_t begin, int64_t end) {
    int64_t prepared = -1;
    for (int64_t item = begin; item < end; ++item) {
      const int64_t image = item / layout_.num_blocks, channels = image / p_.mb;
      if (channels != prepared) prepare_channels(channels * lanes_);
      prepared = channels;
      run_block(image % p_.mb, item % layout_.num_blocks);
    }
  }

 private:
  using Cell = Sum<T>;

  const DepthwiseAxis& x_axis() const { return layout_.axis[layout_.last]; }

  // Lists the taps of the last axis, class by class.
  void list_steps() {
    const DepthwiseAxis& x = x_axis();
    int64_t step = 0;
    for (int64_t cls = 0; cls < x.classes; ++cls) {
      class_begin_[cls] = step;
      for (int64_t k = 0; k < x.ker; ++k) {
        if (x.class_of(plan_.op, k) != cls) continue;
        src_offset_[step] = -x.shift_of(plan_.op, k) * lanes_;
        weight_offset_[step++] = k * lanes_;
      }
    }
    class_begin_[x.classes] = step;
  }

  void list_axis_taps() {
    AxisTap* out = axis_taps_;
    for (int a = 0; a < layout_.last; ++a) {
      const DepthwiseAxis& axis = layout_.axis[a];
      for (int64_t k = -1; k <= axis.ker; ++k) *out++ = {axis.shift_of(plan_.op, k), axis.class_of(plan_.op, k)};
    }
  }

  // Transposes rows of `count` elements, one row per channel, to [element][lane].
  void interlace(const T* in, int64_t stride, int64_t count, Cell* out) {
    plan_.transpose->from<T>()(in, stride, channels_, count, out, lanes_);
  }

  // Lays out weights and bias of the channels from `first` on: [tap][lane].
  void prepare_channels(int64_t first) {
    first_channel_ = first;
    channels_ = std::min(lanes_, p_.g - first);
    if (channels_ < lanes_) std::fill_n(weights_, layout_.taps * lanes_, Cell());
    std::fill_n(bias_, lanes_, -Cell());  // adding -0 changes nothing, not even the sign of a zero
    for (int64_t c = 0; c < channels_ && run_.bias != nullptr; ++c) bias_[c] = widen(run_.bias[first + c]);
    const T* wei = run_.wei + first * p_.wei_0;
    int64_t dense = 1;
    bool is_dense = true;
    for (int a = layout_.last; a >= 0; --a) {
      is_dense = is_dense && p_.wei_x[a] == dense;
      dense *= p_.ker[a];
    }
    if (is_dense) return interlace(wei, p_.wei_0, layout_.taps, weights_);
    Cell* out = weights_;
    for (int64_t tap = 0; tap < layout_.taps; ++tap, out += lanes_) {
      const T* in = wei + offset_of(tap, p_.ker, p_.wei_x, p_.ndims);
      for (int64_t c = 0; c < channels_; ++c) out[c] = widen(in[c * p_.wei_0]);
    }
  }

  // What a block computes: its dst elements, and the src elements that it reads, clipped to src.
  struct Box {
    int64_t dst_begin[kMaxSpatial], dst_end[kMaxSpatial];
    int64_t low[kMaxSpatial], high[kMaxSpatial];
    int64_t x_origin;                  // src position of the first cell of a row of the copy
    int64_t copy_stride[kMaxSpatial];  // in cells, of the axes before the last
  };

  Box box_at(int64_t block) const {
    Box box;
    int64_t stride = layout_.pitch * lanes_;
    for (int a = layout_.last; a >= 0; --a) {
      const DepthwiseAxis& axis = layout_.axis[a];
      const int64_t begin = axis.first + block % axis.num_blocks * axis.block;
      const int64_t end = std::min(begin + axis.block, axis.first + axis.positions);
      block /= axis.num_blocks;
      box.dst_begin[a] = std::max<int64_t>(begin * axis.classes - axis.base, 0);
      box.dst_end[a] = std::min(end * axis.classes - axis.base, p_.dst_size[a]);
      const int64_t origin = begin * axis.step - axis.least_shift - axis.spread;
      box.low[a] = std::clamp<int64_t>(origin, 0, p_.src_size[a]);
      box.high[a] = std::clamp<int64_t>((end - 1) * axis.step - axis.least_shift + 1, box.low[a], p_.src_size[a]);
      if (a == layout_.last) {
        box.x_origin = origin;
      } else {
        box.copy_stride[a] = stride;
        stride *= box.high[a] - box.low[a];
      }
    }
    return box;
  }

  // Copies the rows of a box, with zeros around them.
  void copy_rows(const T* in, const Box& box, int64_t block) {
    const int last = layout_.last;
    const int64_t begin = std::clamp<int64_t>(box.low[last] - box.x_origin, 0, layout_.pitch);
    const int64_t end = std::max(begin, std::min(box.high[last] - box.x_origin, layout_.pitch));
    // The zeros around the rows are still there if the last copy was of the same block.
    const bool has_zeros = block == zeros_of_ && (channels_ == lanes_ || channels_ == zeroed_);
    zeros_of_ = block, zeroed_ = channels_;
    Cell* out = copy_;
    for_each_row(p_, in + box.low[last], box.low, box.high, [&](const T* row) {
      if (!has_zeros) {
        std::fill_n(out, (channels_ < lanes_ ? layout_.pitch : begin) * lanes_, Cell());
        std::fill(out + end * lanes_, out + layout_.pitch * lanes_, Cell());
      }
      if (begin < end) interlace(row, p_.src_c, end - begin, out + begin * lanes_);
      out += layout_.pitch * lanes_;
    });
  }

  void run_block(int64_t n, int64_t block) {
    const int last = layout_.last;
    const Box box = box_at(block);
    for (int a = 0; a <= last; ++a) {
      if (box.dst_begin[a] >= box.dst_end[a]) return;
    }
    copy_rows(run_.src + n * p_.src_n + first_channel_ * p_.src_c, box, block);
    if (block != listed_) list_classes(box);
    listed_ = block;
    T* const dst = run_.dst + n * p_.dst_n + first_channel_ * p_.dst_c;
    const int64_t count = box.dst_end[last] - box.dst_begin[last];
    int64_t y[kMaxSpatial];
    std::copy_n(box.dst_begin, last, y);
    while (true) {
      const int64_t rows = layout_.in_twos && y[last - 1] + 1 < box.dst_end[last - 1] ? 2 : 1;
      T* to = dst + box.dst_begin[last];
      for (int a = 0; a < last; ++a) to += y[a] * p_.dst_x[a];
      if (to != end_ || filled_ + rows * count > layout_.tile) flush();
      sum_rows(list_rows(box, y, rows), rows, count);
      add_to_tile(to, count);
      if (rows > 1) add_to_tile(to + p_.dst_x[last - 1], count);
      int a = last - 1;
      if (a >= 0) y[a] += rows - 1;
      while (a >= 0 && ++y[a] == box.dst_end[a]) y[a] = box.dst_begin[a], --a;
      if (a < 0) break;
    }
    flush();
  }

  // Lists the rows of src, and their weights, that `dst_rows` rows of dst from y on need. Returns how many.
  int64_t list_rows(const Box& box, const int64_t* y, int64_t dst_rows) {
    const int outer = layout_.last - 1;
    const int64_t row_weights = x_axis().ker * lanes_;
    if (outer < 0) {
      rows_[0] = copy_;
      weight_rows_[0][0] = weights_;
      return 1;
    }
    const DepthwiseAxis& axis = layout_.axis[outer];
    // The second row reads for the next tap, or the one before, what the first row reads for a tap.
    const int64_t next = plan_.op == Op::kConv ? -1 : 1;
    const int64_t begin = dst_rows == 2 && next > 0 ? -1 : 0, end = axis.ker + (dst_rows == 2 && next < 0 ? 1 : 0);
    int64_t cls[kMaxSpatial], x[kMaxSpatial];  // class of the row, and the src position that it reads at shift 0
    const AxisTap* taps[kMaxSpatial];
    const AxisTap* at = axis_taps_ + 1;
    for (int a = 0; a <= outer; ++a) {
      cls[a] = (y[a] + layout_.axis[a].base) % layout_.axis[a].classes;
      x[a] = (y[a] + layout_.axis[a].base) / layout_.axis[a].classes * layout_.axis[a].step;
      taps[a] = at;
      at += layout_.axis[a].ker + 2;
    }
    const auto weights_of = [&](const Cell* first, int64_t k) {
      return k >= 0 && k < axis.ker ? first + k * row_weights : nullptr;
    };
    int64_t count = 0;
    const Cell* weights = weights_;
    for (int64_t tap = 0; tap < layout_.outer_taps; tap += axis.ker, weights += axis.ker * row_weights) {
      const Cell* rows = copy_;
      bool inside = true;
      for (int64_t a = outer - 1, rest = tap / axis.ker; a >= 0 && inside; --a) {
        const AxisTap& t = taps[a][rest % layout_.axis[a].ker];
        rest /= layout_.axis[a].ker;
        const int64_t from = x[a] - t.shift;
        inside = t.cls == cls[a] && from >= 0 && from < p_.src_size[a];
        rows += (from - box.low[a]) * box.copy_stride[a];
      }
      for (int64_t k = begin; inside && k < end; ++k) {
        const int64_t from = x[outer] - taps[outer][k].shift;
        if (taps[outer][k].cls != cls[outer] || from < 0 || from >= p_.src_size[outer]) continue;
        rows_[count] = rows + (from - box.low[outer]) * box.copy_stride[outer];
        weight_rows_[count][0] = weights_of(weights, k);
        weight_rows_[count++][1] = weights_of(weights, k + next);
      }
    }
    return count;
  }

  // Lists the positions of a row of dst by their class.
  void list_classes(const Box& box) {
    const DepthwiseAxis& x = x_axis();
    const int64_t begin = box.dst_begin[layout_.last], end = box.dst_end[layout_.last];
    num_classes_ = 0;
    for (int64_t cls = 0; cls < x.classes; ++cls) {
      const int64_t first = ceil_div(begin + x.base - cls, x.classes), past = ceil_div(end + x.base - cls, x.classes);
      if (first >= past) continue;
      const int64_t step = class_begin_[cls];
      classes_[num_classes_++] = {past - first, (first * x.step - box.x_origin) * lanes_,
                                  (first * x.classes + cls - x.base - begin) * lanes_, class_begin_[cls + 1] - step,
                                  step};
    }
  }

  // Sums rows of dst from the listed rows of src, into the tile.
  void sum_rows(int64_t num_rows, int64_t dst_rows, int64_t count) {
    Cell* const tile = tile_ + filled_ * lanes_;
    int64_t moved = 0;  // offset of the pointers in rows_ from the beginnings of the rows
    for (const ClassPositions* c = classes_; c != classes_ + num_classes_; ++c) {
      for (int64_t r = 0; r < num_rows; ++r) rows_[r] += c->src - moved;
      moved = c->src;
      plan_.depthwise->run(ChannelLanesArgs<Cell>{c->count,
                                                  x_axis().classes * lanes_,
                                                  num_rows,
                                                  rows_,
                                                  weight_rows_,
                                                  c->steps,
                                                  src_offset_ + c->first,
                                                  weight_offset_ + c->first,
                                                  bias_,
                                                  dst_rows,
                                                  {tile + c->dst, tile + c->dst + count * lanes_}});
    }
  }

  // Notes where the next positions of the tile belong in dst. Contiguous ones extend the last place.
  void add_to_tile(T* to, int64_t count) {
    if (filled_ == 0 || to != end_) {
      place_[num_places_] = to;
      begin_[num_places_++] = filled_;
    }
    filled_ += count;
    end_ = to + count;
  }

  // Writes the sums of the tile to dst.
  void flush() {
    if constexpr (!std::is_same_v<T, double>) {  // which have no activation
      if (!p_.activation.is_identity()) {
        plan_.activate->template run<T>(p_.activation, -0.0f, filled_ * lanes_, tile_);
      }
    }
    for (int i = 0; i < num_places_; ++i) {
      const int64_t count = (i + 1 < num_places_ ? begin_[i + 1] : filled_) - begin_[i];
      plan_.transpose->to<T>()(tile_ + begin_[i] * lanes_, lanes_, count, channels_, nullptr, place_[i], p_.dst_c);
    }
    filled_ = num_places_ = 0;
    end_ = nullptr;
  }

  const Plan& plan_;
  const ConvProblem& p_;
  const Layout& layout_;
  const Run<T>& run_;
  const int64_t lanes_;
  const Cell** rows_;
  const Cell* (*weight_rows_)[kMaxLaneRows];
  AxisTap* axis_taps_;   // of each axis before the last, from the one before its first to the one after its last
  int64_t* src_offset_;  // of the steps, see ChannelLanesArgs
  int64_t* weight_offset_;
  int64_t* class_begin_;     // the steps of each class
  ClassPositions* classes_;  // those that a row of the block has
  Cell* bias_;
  Cell* weights_;
  Cell* copy_;
  Cell* tile_;
  int64_t first_channel_ = 0, channels_ = 0;
  int64_t listed_ = -1, num_classes_ = 0;  // the block whose classes are listed
  int64_t zeros_of_ = -1, zeroed_ = 0;     // the block whose zeros the copy has, and for how many channels
  // The tile: its positions, and their places in dst for the first channel: one, or one for each of the rows that were
  // summed last.
  int64_t filled_ = 0;
  int num_places_ = 0;
  T* place_[kMaxLaneRows];
  int64_t begin_[kMaxLaneRows];
  T* end_ = nullptr;  // behind the last of them
};

}  // namespace

size_t channel_lanes_scratch_bytes(const Plan& plan, const ConvProblem& problem, int threads) {
  const Layout layout(plan, problem, threads);
  return layout.slice_size * static_cast<size_t>(layout.num_slices);
}

void run_channel_lanes(const Plan& plan, const ConvProblem& problem, const void* src, const void* wei, const void* bias,
                       void* dst, void* scratch, const Parallel& parallel) {
  with_typed_run(plan, problem, Layout(plan, problem, parallel.threads), src, wei, bias, dst, scratch,
                 [&](const auto& run) { run_workers<Worker>(run, parallel); });
}

}  // namespace ortconv::kernels

#include "kernels/conv/col2im.h"

#include <algorithm>
#include <array>
#include <type_traits>
#include <utility>

#include "base/math.h"
#include "kernels/conv/typed_run.h"
#include "kernels/gemm/pieces.h"

namespace ortconv::kernels {
namespace {

constexpr int64_t kItemColumns = 1024;     // columns of one work item, so that its buffer stays in L1 or L2
constexpr int64_t kItemWeights = 1 << 17;  // most widened weights of a work item, so that they stay in L2
constexpr int64_t kItemSums = 1 << 16;     // sums of a work item that are rounded into dst, likewise
constexpr int64_t kLeastColumns = 256;     // but so many columns

bool is_contiguous(const Plan& plan, const ConvProblem& p) {
  int64_t stride = 1;
  for (int a = plan.ndims - 1; a >= 0; --a) {
    if (p.wei_x[a] != stride) return false;
    stride *= p.ker[a];
  }
  return p.wei_1 == stride && p.wei_0 == stride * plan.oc;
}

// A row of the kernel with taps that fall into dst: the first of these, and how far it falls from the first of all
// rows.
struct TapRow {
  int64_t tap, dst;
};

// A work item is a range of dst channels of one group.
struct Layout {
  int64_t rows;  // src positions of the batch
  Panels panels;
  int64_t dst_points;  // of one channel
  int64_t item_oc, items_per_group;
  bool widens_src;  // all of it at once
  // Byte offsets into the scratch, which begins with src as the A operand: of src widened, and of one slice per thread.
  size_t widened_src, slices, slice_size;
  // Inside a slice, which begins with the columns: weights that are widened; sums, where dst has 16-bit elements.
  size_t slice_wei, slice_sums, slice_tap_rows;

  Layout(const Plan& plan, const ConvProblem& p, int threads, bool widens)
      : rows(p.mb * product_of(p.src_size, p.ndims)),
        panels(rows, plan.mr),
        dst_points(product_of(p.dst_size, p.ndims)) {
    const bool rounds = plan.element_bytes != plan.cell_bytes;
    const auto cells = [&](int64_t count) { return align64(static_cast<size_t>(count) * plan.cell_bytes); };
    const int64_t wanted = threads > 1 ? ceil_div(4 * threads, plan.g) : 1;
    int64_t most = std::max<int64_t>(1, kItemColumns / plan.num_taps);
    if (widens) most = std::clamp<int64_t>(kItemWeights / (plan.ic * plan.num_taps), 1, most);
    const int64_t least = std::clamp<int64_t>(kLeastColumns / plan.num_taps, 1, most);
    if (rounds) most = std::clamp(kItemSums / (p.mb * dst_points), least, most);
    // Each item finds the window of every position again. On several threads an item therefore has kLeastColumns or
    // more, as long as each thread has an item.
    const int64_t share = ceil_div(int64_t{threads}, plan.g), fewest = std::min(least, ceil_div(plan.oc, share));
    item_oc = std::min({most, plan.oc, std::max(fewest, plan.oc / wanted)});
    items_per_group = std::min(plan.oc, align_up(ceil_div(plan.oc, item_oc), share));
    item_oc = ceil_div(plan.oc, items_per_group);
    items_per_group = ceil_div(plan.oc, item_oc);
    widens_src = rounds && src_is_dense(p);
    widened_src = cells(plan.g * plan.ic * rows);
    slices = widened_src + (widens_src ? cells(plan.g * plan.ic * rows) : 0);
    const int64_t columns = align_up(item_oc * plan.num_taps, kGemmColumns);
    slice_wei = cells(columns * std::min(rows, plan.mr));
    slice_sums = slice_wei + (widens ? cells(plan.ic * columns) : 0);
    slice_tap_rows = slice_sums + (rounds ? cells(p.mb * item_oc * dst_points) : 0);
    slice_size = slice_tap_rows + align64(plan.num_taps / plan.axis[plan.ndims - 1].ker * sizeof(TapRow));
  }
};

template <class T>
using Run = TypedRun<T, Layout>;

// Where some dst channels of all images are summed, and its strides: dst itself, or scratch.
template <class Cell>
struct Sums {
  Cell* data;
  int64_t n, c, x[kMaxSpatial];
};

// The image and the index of each axis of a src position, from the first one on.
struct Position {
  int64_t image = 0, at[kMaxSpatial] = {};

  void advance(const ConvProblem& p) {
    for (int a = p.ndims - 1; a >= 0; --a) {
      if (++at[a] < p.src_size[a]) return;
      at[a] = 0;
    }
    ++image;
  }
};

// The A operand of a group: [panel][src channel][row].
template <class T>
Sum<T>* packed_src(const Run<T>& run, int64_t group) {
  return reinterpret_cast<Sum<T>*>(run.scratch) + group * run.plan.ic * run.layout.rows;
}

// `src` is that of the run, or the same widened.
template <class T, class Value>
void pack_src(const Run<T>& run, const Value* src, int64_t group) {
  const Plan& plan = run.plan;
  const ConvProblem& p = run.problem;
  const Panels& panels = run.layout.panels;
  Sum<T>* out = packed_src(run, group);
  Position x;
  for (int64_t panel = 0; panel < panels.count; ++panel) {
    const int64_t rows = panels.begin(panel + 1) - panels.begin(panel);
    for (int64_t r = 0; r < rows; ++r, x.advance(p)) {
      const Value* in = src + x.image * p.src_n + group * plan.ic * p.src_c;
      for (int a = 0; a < plan.ndims; ++a) in += x.at[a] * p.src_x[a];
      for (int64_t c = 0; c < plan.ic; ++c) out[c * rows + r] = widen(in[c * p.src_c]);
    }
    out += rows * plan.ic;
  }
}

// Returns src in cells.
template <class T>
const Sum<T>* widen_src(const Run<T>& run, const Parallel& parallel) {
  auto* const widened = reinterpret_cast<Sum<T>*>(run.scratch + run.layout.widened_src);
  if constexpr (!std::is_same_v<T, Sum<T>>) {
    for_each_range(parallel, run.plan.g * run.plan.ic * run.layout.rows, kManyCopied, [&](int64_t begin, int64_t end) {
      run.plan.widen->run(run.src + begin, end - begin, widened + begin);
    });
  }
  return widened;
}

// The taps of a src position that fall into dst. Positions away from its borders have the same, which are listed once.
template <class Cell>
class Window {
 public:
  Window(const ConvProblem& p, const Sums<Cell>& sums, TapRow* rows)
      : p_(p), sums_(sums), last_(p.ndims - 1), rows_(rows) {}

  void move_to(const Position& x) {
    Taps taps;
    begin_ = x.image * sums_.n;
    for (int a = 0; a <= last_; ++a) {
      const int64_t y = x.at[a] * p_.stride[a] - p_.pad[a], room = p_.dst_size[a] - y;  // of tap 0, and from there on
      const int64_t reach = (p_.ker[a] - 1) * p_.dilation[a];
      taps.begin[a] = y >= 0 ? 0 : std::min(p_.ker[a], ceil_div(-y, p_.dilation[a]));
      taps.end[a] = room > reach ? p_.ker[a] : room <= 0 ? 0 : ceil_div(room, p_.dilation[a]);
      if (taps.begin[a] < taps.end[a]) begin_ += (y + taps.begin[a] * p_.dilation[a]) * sums_.x[a];
    }
    if (taps == taps_) return;
    taps_ = taps;
    list();
  }

  int64_t begin() const { return begin_; }  // of the first of them, in the sums of a channel
  const TapRow* rows() const { return rows_; }
  int64_t num_rows() const { return num_rows_; }
  int64_t row_length() const { return taps_.end[last_] - taps_.begin[last_]; }

 private:
  // Those of each axis.
  struct Taps {
    int64_t begin[kMaxSpatial] = {}, end[kMaxSpatial] = {};
    bool operator==(const Taps& other) const {
      return std::equal(begin, begin + kMaxSpatial, other.begin) && std::equal(end, end + kMaxSpatial, other.end);
    }
  };

  void list() {
    num_rows_ = 0;
    for (int a = 0; a <= last_; ++a) {
      if (taps_.begin[a] >= taps_.end[a]) return;
    }
    int64_t k[kMaxSpatial];
    std::copy_n(taps_.begin, last_ + 1, k);
    for (int a = 0; a >= 0;) {
      TapRow row{0, 0};
      for (int axis = 0; axis <= last_; ++axis) {
        row.tap = row.tap * p_.ker[axis] + k[axis];
        row.dst += (k[axis] - taps_.begin[axis]) * p_.dilation[axis] * sums_.x[axis];
      }
      rows_[num_rows_++] = row;
      for (a = last_ - 1; a >= 0 && ++k[a] == taps_.end[a]; --a) k[a] = taps_.begin[a];
    }
  }

  const ConvProblem& p_;
  const Sums<Cell>& sums_;
  const int last_;
  TapRow* const rows_;
  int64_t num_rows_ = 0, begin_ = 0;
  Taps taps_;
};

// Positions of dst that are evenly spaced: a line along the last axis, or several, one after the other.
struct Line {
  int64_t begin;   // in a tensor of the sizes of a channel
  int64_t offset;  // in one of some strides
  int64_t length;
};

// Calls fn(n, line) for the lines of every image in a tensor of the given strides; offsets are apart from n and the
// channel.
template <class Fn>
void for_each_line(const ConvProblem& p, const int64_t* strides, Fn fn) {
  int axes = p.ndims - 1;
  int64_t length = p.dst_size[axes];
  for (; axes > 0 && strides[axes - 1] == length * strides[p.ndims - 1]; --axes) length *= p.dst_size[axes - 1];
  const int64_t lines = product_of(p.dst_size, axes);
  for (int64_t n = 0; n < p.mb; ++n) {
    for (int64_t i = 0; i < lines; ++i) fn(n, Line{i * length, offset_of(i, p.dst_size, strides, axes), length});
  }
}

// Fills the sums of `count` channels with the bias.
template <class T>
void fill_bias(const ConvProblem& p, const Sums<Sum<T>>& sums, const T* bias, int64_t count) {
  const int64_t step = sums.x[p.ndims - 1];
  for_each_line(p, sums.x, [&](int64_t n, const Line& line) {
    if (bias == nullptr && step == 1 && sums.c == line.length) {  // channels that lie one after the other
      std::fill_n(sums.data + n * sums.n + line.offset, count * line.length, Sum<T>());
      return;
    }
    for (int64_t oc = 0; oc < count; ++oc) {
      const Sum<T> b = bias == nullptr ? 0 : widen(bias[oc]);
      Sum<T>* row = sums.data + n * sums.n + oc * sums.c + line.offset;
      if (step == 1) {
        std::fill_n(row, line.length, b);
      } else {
        for (int64_t y = 0; y < line.length; ++y) row[y * step] = b;
      }
    }
  });
}

// The columns of a position in some channels, and the rows of taps that are added to the sums.
template <class Cell>
struct Columns {
  const Cell* in;
  int64_t in_channel;  // from a channel to the next one
  const TapRow *rows, *rows_end;
  int64_t length;  // taps of a row
  Cell* out;
  int64_t out_channel, out_tap;
  int64_t channels;
};

// Adds kLength taps, or `length` of them if it is 0, that lie together in the sums or `step` apart.
template <int kLength, bool kTogether, class Cell>
void add_row(const Cell* in, int64_t length, Cell* out, int64_t step) {
  constexpr int kFew = 8;
  if constexpr (kTogether) step = 1;  // which compilers turn into vector instructions
  if constexpr (kLength == 0) {
    for (; length >= kFew && !kTogether; length -= kFew, in += kFew, out += kFew * step) {
      add_row<kFew, kTogether>(in, kFew, out, step);
    }
    for (int64_t k = 0; k < length; ++k) out[k * step] += in[k];
  } else {
    Cell sums[kLength];  // so that the compiler need not know that the sums are other memory
    for (int k = 0; k < kLength; ++k) sums[k] = out[k * step] + in[k];
    for (int k = 0; k < kLength; ++k) out[k * step] = sums[k];
  }
}

template <int kLength, bool kTogether, class Cell>
void add_rows_of(const Columns<Cell>& c) {
  const Cell* in = c.in;
  Cell* out = c.out;
  for (int64_t channel = 0; channel < c.channels; ++channel, in += c.in_channel, out += c.out_channel) {
    for (const TapRow* row = c.rows; row != c.rows_end; ++row) {
      add_row<kLength, kTogether>(in + row->tap, c.length, out + row->dst, c.out_tap);
    }
  }
}

template <class Cell>
using AddFn = void (*)(const Columns<Cell>&);
template <bool kTogether, class Cell, int... kLengths>
constexpr auto add_functions(std::integer_sequence<int, kLengths...>) {
  return std::array<AddFn<Cell>, sizeof...(kLengths)>{add_rows_of<kLengths, kTogether, Cell>...};
}
// By length; the first ones take any.
constexpr int kShort = 16;
template <bool kTogether, class Cell>
constexpr auto kAddRows = add_functions<kTogether, Cell>(std::make_integer_sequence<int, kShort + 1>());

template <class Cell>
void add_columns(const Plan& plan, const ConvProblem& p, const Window<Cell>& window, const Cell* columns,
                 int64_t oc_count, const Sums<Cell>& sums) {
  if (window.num_rows() == 0) return;
  const int last = plan.ndims - 1;
  const int64_t length = window.row_length(), step = p.dilation[last] * sums.x[last];
  const size_t index = length <= kShort ? static_cast<size_t>(length) : 0;
  const AddFn<Cell> add = step == 1 ? kAddRows<true, Cell>[index] : kAddRows<false, Cell>[index];
  add({columns, plan.num_taps, window.rows(), window.rows() + window.num_rows(), length, sums.data + window.begin(),
       sums.c, step, oc_count});
}

// Rounds the sums of `count` channels, whose lines lie one after the other, into dst.
template <class T>
void round_sums(const Plan& plan, const ConvProblem& p, const Sums<Sum<T>>& sums, int64_t count, T* dst) {
  constexpr int64_t kFew = 8;  // numbers for which a call would take longer
  const int64_t step = p.dst_x[p.ndims - 1];
  for_each_line(p, p.dst_x, [&](int64_t n, const Line& line) {
    const Sum<T>* in = sums.data + n * sums.n + line.begin;
    T* out = dst + n * p.dst_n + line.offset;
    if (step == 1 && count * line.length >= kFew) {
      const InterleaveArgs<T> args{&in, sums.c, count, line.length, 1, nullptr, out, p.dst_c, Store::kCached};
      plan.interleave->to<T>()(args.joined());
      return;
    }
    for (int64_t oc = 0; oc < count; ++oc) {
      for (int64_t y = 0; y < line.length; ++y) round_to(out + oc * p.dst_c + y * step, in[oc * sums.c + y]);
    }
  });
}

// Applies the activation to the sums of `count` channels.
template <class T>
void activate_sums(const Plan& plan, const ConvProblem& p, const Sums<float>& sums, int64_t count) {
  const int64_t step = sums.x[p.ndims - 1];
  for_each_line(p, sums.x, [&](int64_t n, const Line& line) {
    for (int64_t oc = 0; oc < count; ++oc) {
      float* row = sums.data + n * sums.n + oc * sums.c + line.offset;
      // One call per element where they are not next to each other.
      const int64_t length = step == 1 ? line.length : 1;
      for (int64_t y = 0; y < line.length; y += length) {
        plan.activate->run<T>(p.activation, 0.0f, length, row + y * step);
      }
    }
  });
}

// The B operand of one item: the weights as they lie, or widened.
template <class Cell>
struct Weights {
  const Cell* data;
  int64_t pitch;  // of src channels
};

template <class T>
Weights<Sum<T>> weights_of_item(const Plan& plan, const ConvProblem& p, const T* wei, int64_t columns,
                                [[maybe_unused]] Sum<T>* buffer) {
  if constexpr (std::is_same_v<T, Sum<T>>) {
    return {wei, p.wei_0};
  } else {
    for (int64_t c = 0; c < plan.ic; ++c) plan.widen->run(wei + c * p.wei_0, columns, buffer + c * columns);
    return {buffer, columns};
  }
}

// Computes the columns of a panel of rows.
template <class Cell>
void multiply(const Plan& plan, int64_t rows, int64_t columns, const Cell* a, const Cell* b, int64_t ldb,
              Cell* const* c) {
  const Pieces pieces = best_pieces(plan.ic);
  const int64_t no_offset = 0;
  for (int64_t k = 0; k < plan.ic; k += pieces.call) {
    const int64_t count = std::min(pieces.call, plan.ic - k);
    plan.gemm_kernel<Cell>().run(
        {rows, columns, 1, count, a + k * rows, b + k * ldb, &no_offset, ldb, c, pieces.piece, k > 0});
  }
}

// `all_wei` are the weights of all groups, as they are stored or as cells.
template <class T, class Weight>
void run_item(const Run<T>& run, const Weight* all_wei, char* slice, int64_t item) {
  using Cell = Sum<T>;
  const Plan& plan = run.plan;
  const ConvProblem& p = run.problem;
  const Layout& layout = run.layout;
  const int64_t group = item / layout.items_per_group;
  const int64_t oc = item % layout.items_per_group * layout.item_oc;
  const int64_t oc_count = std::min(layout.item_oc, plan.oc - oc), oc_begin = group * plan.oc + oc;
  Cell* buffer = reinterpret_cast<Cell*>(slice);
  TapRow* tap_rows = reinterpret_cast<TapRow*>(slice + layout.slice_tap_rows);
  const int64_t columns = oc_count * plan.num_taps, pitch = align_up(columns, kGemmColumns);
  const Weights<Cell> wei = weights_of_item(plan, p, all_wei + group * plan.ic * p.wei_0 + oc * p.wei_1, columns,
                                            reinterpret_cast<Cell*>(slice + layout.slice_wei));

  T* dst = run.dst + oc_begin * p.dst_c;
  Sums<Cell> sums{};
  if constexpr (std::is_same_v<T, Cell>) {
    sums = {dst, p.dst_n, p.dst_c, {}};
    std::copy_n(p.dst_x, p.ndims, sums.x);
  } else {
    sums = {reinterpret_cast<Cell*>(slice + layout.slice_sums), oc_count * layout.dst_points, layout.dst_points, {}};
    for (int a = 0; a < p.ndims; ++a) sums.x[a] = product_of(p.dst_size + a + 1, p.ndims - a - 1);
  }
  fill_bias(p, sums, run.bias == nullptr ? nullptr : run.bias + oc_begin, oc_count);
  Window<Cell> window(p, sums, tap_rows);
  Position x;
  const Cell* a = packed_src(run, group);
  for (int64_t panel = 0; panel < layout.panels.count; ++panel) {
    const int64_t begin = layout.panels.begin(panel), rows = layout.panels.begin(panel + 1) - begin;
    Cell* c[kMaxRows];
    for (int64_t r = 0; r < rows; ++r) c[r] = buffer + r * pitch;
    multiply(plan, rows, columns, a, wei.data, wei.pitch, c);
    for (int64_t r = 0; r < rows; ++r, x.advance(p)) {
      window.move_to(x);
      add_columns(plan, p, window, buffer + r * pitch, oc_count, sums);
    }
    a += rows * plan.ic;
  }
  if constexpr (!std::is_same_v<T, double>) {  // which have no activation
    if (!p.activation.is_identity()) activate_sums<T>(plan, p, sums, oc_count);
  }
  if constexpr (!std::is_same_v<T, Cell>) round_sums(plan, p, sums, oc_count, dst);
}

template <class T, class Weight>
void run_typed(const Run<T>& run, const Weight* wei, const Parallel& parallel) {
  const int64_t items = run.plan.g * run.layout.items_per_group;
  const int64_t slices = std::min<int64_t>(std::max(parallel.threads, 1), items);
  const auto pack = [&](const auto* src) {
    const int64_t least = ceil_div(kManyCopied, std::max<int64_t>(run.plan.ic * run.layout.rows, 1));
    for_each_range(parallel, run.plan.g, least, [&](int64_t begin, int64_t end) {
      for (int64_t group = begin; group < end; ++group) pack_src(run, src, group);
    });
  };
  if (run.layout.widens_src) {
    pack(widen_src(run, parallel));
  } else {
    pack(run.src);
  }
  Ranges ranges(items, 1, 1, slices);
  for_each(parallel, slices, [&](int64_t i) {
    char* slice = run.scratch + run.layout.slices + i * run.layout.slice_size;
    ranges.for_each_item([&](int64_t item) { run_item(run, wei, slice, item); });
  });
}

}  // namespace

bool can_run_columns(const Plan& plan, const ConvProblem& p) {
  return plan.op == Op::kConvTranspose && plan.parts == nullptr && is_contiguous(plan, p);
}

Buffer widened_weights(const Plan& plan, const void* wei) {
  const int64_t count = plan.packed_size();
  Buffer widened(static_cast<size_t>(count) * plan.cell_bytes);
  with_float_type(plan.dtype, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (!std::is_same_v<T, Sum<T>>) plan.widen->run(static_cast<const T*>(wei), count, widened.as<float>());
  });
  return widened;
}

size_t columns_scratch_bytes(const Plan& plan, const ConvProblem& problem, int threads, bool is_widened) {
  const Layout layout(plan, problem, threads, !is_widened && plan.element_bytes != plan.cell_bytes);
  return layout.slices + static_cast<size_t>(threads) * layout.slice_size;
}

void run_columns(const Plan& plan, const ConvProblem& problem, const void* src, const ColumnWeights& wei,
                 const void* bias, void* dst, void* scratch, const Parallel& parallel) {
  const bool widens = wei.widened == nullptr && plan.element_bytes != plan.cell_bytes;
  const Layout layout(plan, problem, std::max(parallel.threads, 1), widens);
  with_typed_run(plan, problem, layout, src, wei.stored, bias, dst, scratch, [&](const auto& run) {
    using T = std::remove_const_t<std::remove_pointer_t<decltype(run.wei)>>;
    if constexpr (!std::is_same_v<T, Sum<T>>) {
      if (wei.widened != nullptr) return run_typed(run, wei.widened, parallel);
    }
    run_typed(run, run.wei, parallel);
  });
}

}  // namespace ortconv::kernels

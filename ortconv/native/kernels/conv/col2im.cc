#include "kernels/conv/col2im.h"

#include <algorithm>
#include <type_traits>

#include "base/math.h"
#include "kernels/conv/typed_run.h"
#include "kernels/gemm/pieces.h"

namespace ortconv::kernels {
namespace {

constexpr int64_t kItemColumns = 1024;     // columns of one work item, so that its buffer stays in L1 or L2
constexpr int64_t kItemWeights = 1 << 17;  // most widened weights of a work item, so that they stay in L2

bool is_contiguous(const Plan& plan, const ConvProblem& p) {
  int64_t stride = 1;
  for (int a = plan.ndims - 1; a >= 0; --a) {
    if (p.wei_x[a] != stride) return false;
    stride *= p.ker[a];
  }
  return p.wei_1 == stride && p.wei_0 == stride * plan.oc;
}

// Taps of one row of the kernel that fall into dst, for one src position.
struct TapRow {
  int64_t tap, count;
  int64_t dst;  // of the first of them
};

// A work item is a range of dst channels of one group.
struct Layout {
  int64_t rows;  // src positions of the batch
  Panels panels;
  int64_t dst_points;  // of one channel
  int64_t item_oc, items_per_group;
  // Byte offsets into the scratch: src as the A operand, then one slice per thread.
  size_t slices, slice_size;
  // Inside a slice, which begins with the columns: weights that have to be copied; sums, where dst has 16-bit elements.
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
    item_oc = std::min({most, plan.oc, std::max<int64_t>(1, plan.oc / wanted)});
    items_per_group = ceil_div(plan.oc, item_oc);
    slices = cells(plan.g * plan.ic * rows);
    const int64_t columns = ceil_div(item_oc * plan.num_taps, kGemmColumns) * kGemmColumns;
    slice_wei = cells(columns * std::min(rows, plan.mr));
    slice_sums = slice_wei + cells(plan.ic * (widens ? columns : kGemmColumns));
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

// The index of each axis and the image of src position `row`.
struct Position {
  int64_t image, at[kMaxSpatial];

  Position(const Plan& plan, const ConvProblem& p, int64_t row) {
    for (int a = plan.ndims - 1; a >= 0; --a) {
      at[a] = row % p.src_size[a];
      row /= p.src_size[a];
    }
    image = row;
  }
};

// The A operand of a group: [panel][src channel][row].
template <class T>
Sum<T>* packed_src(const Run<T>& run, int64_t group) {
  return reinterpret_cast<Sum<T>*>(run.scratch) + group * run.plan.ic * run.layout.rows;
}

template <class T>
void pack_src(const Run<T>& run, int64_t group) {
  const Plan& plan = run.plan;
  const ConvProblem& p = run.problem;
  const Panels& panels = run.layout.panels;
  Sum<T>* out = packed_src(run, group);
  for (int64_t panel = 0; panel < panels.count; ++panel) {
    const int64_t begin = panels.begin(panel), rows = panels.begin(panel + 1) - begin;
    for (int64_t r = 0; r < rows; ++r) {
      const Position x(plan, p, begin + r);
      const T* in = run.src + x.image * p.src_n + group * plan.ic * p.src_c;
      for (int a = 0; a < plan.ndims; ++a) in += x.at[a] * p.src_x[a];
      for (int64_t c = 0; c < plan.ic; ++c) out[c * rows + r] = widen(in[c * p.src_c]);
    }
    out += rows * plan.ic;
  }
}

template <class Cell>
int64_t list_tap_rows(const Plan& plan, const ConvProblem& p, const Position& x, const Sums<Cell>& sums,
                      TapRow* tap_rows) {
  const int last = plan.ndims - 1;
  const int64_t ker = p.ker[last];
  const int64_t first = x.at[last] * p.stride[last] - p.pad[last];  // dst position of tap 0
  const int64_t begin = std::min(ker, first >= 0 ? 0 : ceil_div(-first, p.dilation[last]));
  const int64_t room = p.dst_size[last] - first;
  const int64_t end = room <= 0 ? 0 : std::min(ker, ceil_div(room, p.dilation[last]));
  int64_t count = 0;
  if (begin >= end) return count;
  for (int64_t tap = 0; tap < plan.num_taps; tap += ker) {
    int64_t at = x.image * sums.n + (first + begin * p.dilation[last]) * sums.x[last];
    bool inside = true;
    for (int64_t a = last - 1, rest = tap / ker; a >= 0; --a) {
      const int64_t y = x.at[a] * p.stride[a] - p.pad[a] + rest % p.ker[a] * p.dilation[a];
      inside &= y >= 0 && y < p.dst_size[a];
      at += y * sums.x[a];
      rest /= p.ker[a];
    }
    if (inside) tap_rows[count++] = {tap + begin, end - begin, at};
  }
  return count;
}

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

template <class Cell>
void add_columns(const Plan& plan, const ConvProblem& p, const TapRow* tap_rows, int64_t count, const Cell* columns,
                 int64_t oc_count, const Sums<Cell>& sums) {
  const int last = plan.ndims - 1;
  const int64_t step = p.dilation[last] * sums.x[last];
  for (int64_t oc = 0; oc < oc_count; ++oc, columns += plan.num_taps) {
    for (const TapRow* t = tap_rows; t != tap_rows + count; ++t) {
      Cell* out = sums.data + oc * sums.c + t->dst;
      const Cell* in = columns + t->tap;
      if (step == 1) {  // a constant step, which compilers turn into vector instructions
        for (int64_t k = 0; k < t->count; ++k) out[k] += in[k];
      } else {
        for (int64_t k = 0; k < t->count; ++k) out[k * step] += in[k];
      }
    }
  }
}

// Rounds the sums of `count` channels, whose lines lie one after the other, into dst.
template <class T>
void round_sums(const Plan& plan, const ConvProblem& p, const Sums<Sum<T>>& sums, int64_t count, T* dst) {
  const int64_t step = p.dst_x[p.ndims - 1];
  for_each_line(p, p.dst_x, [&](int64_t n, const Line& line) {
    const Sum<T>* in = sums.data + n * sums.n + line.begin;
    T* out = dst + n * p.dst_n + line.offset;
    if (step == 1) {
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

// The B operand of one item: `whole` columns that are read from the weights in place, if they are cells, and `padded`
// columns that are copied and padded with zeros.
template <class Cell>
struct Weights {
  const Cell* whole_data = nullptr;
  Cell* padded_data;
  int64_t whole = 0, padded;

  template <class T>
  Weights(const Plan& plan, const ConvProblem& p, const T* wei, int64_t columns, Cell* buffer) : padded_data(buffer) {
    // A vector over the end of the weights would read out of bounds.
    if constexpr (std::is_same_v<T, Cell>) {
      whole_data = wei;
      whole = columns / kGemmColumns * kGemmColumns;
    }
    const int64_t rest = columns - whole;
    padded = ceil_div(rest, kGemmColumns) * kGemmColumns;
    for (int64_t c = 0; c < plan.ic && rest > 0; ++c) {
      const T* in = wei + c * p.wei_0 + whole;
      Cell* out = buffer + c * padded;
      if constexpr (std::is_same_v<T, Cell>) {
        std::copy_n(in, rest, out);
      } else {
        plan.widen->run(in, rest, out);
      }
      std::fill(out + rest, out + padded, Cell());
    }
  }
};

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
  const Weights<Cell> wei(plan, p, all_wei + group * plan.ic * p.wei_0 + oc * p.wei_1, oc_count * plan.num_taps,
                          reinterpret_cast<Cell*>(slice + layout.slice_wei));
  const int64_t pitch = wei.whole + wei.padded;

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
  const Cell* a = packed_src(run, group);
  for (int64_t panel = 0; panel < layout.panels.count; ++panel) {
    const int64_t begin = layout.panels.begin(panel), rows = layout.panels.begin(panel + 1) - begin;
    Cell* c[kMaxRows];
    for (int64_t r = 0; r < rows; ++r) c[r] = buffer + r * pitch;
    if (wei.whole > 0) multiply(plan, rows, wei.whole, a, wei.whole_data, p.wei_0, c);
    if (wei.padded > 0) {
      for (int64_t r = 0; r < rows; ++r) c[r] += wei.whole;
      multiply(plan, rows, wei.padded, a, wei.padded_data, wei.padded, c);
    }
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t count = list_tap_rows(plan, p, Position(plan, p, begin + r), sums, tap_rows);
      add_columns(plan, p, tap_rows, count, buffer + r * pitch, oc_count, sums);
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
  for_each(parallel, run.plan.g, [&](int64_t group) { pack_src(run, group); });
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

#include <algorithm>
#include <atomic>
#include <type_traits>

#include "base/math.h"
#include "base/ranges.h"
#include "kernels/gemm/pieces.h"
#include "kernels/im2col/product.h"
#include "kernels/sliding_rows/plan.h"

namespace ortconv::kernels::sliding_rows {
namespace {

template <class T>
struct Run {
  const Plan& plan;
  const ConvProblem& problem;
  const Geometry& geometry;
  const im2col::Kernels<T> kernels;
  const Sum<T>* weights;  // packed
  const Sum<T>* src;      // as it lies, or copied
  const Line* pairs;
  const int64_t* begins;
  const T* bias;  // may be null
  T* dst;
};

// Copies rows of a channel of src, with margins. False: not all numbers are finite, though they have to be.
template <class T>
bool copy_src(const Plan& plan, const ConvProblem& p, const Geometry& geo, const im2col::Kernels<T>& kernels,
              const T* in, Sum<T>* out) {
  const int last = p.ndims - 1;
  const int64_t length = p.src_size[last], rows = product_of(p.src_size, last);
  Sum<T>* to = out;
  for (int64_t row = 0; row < rows; ++row, to += geo.src_pitch) {
    im2col::zero(to, geo.src_margin);
    kernels.load(in + offset_of(row, p.src_size, p.src_x, last), p.src_x[last], length, to + geo.src_margin);
    im2col::zero(to + geo.src_margin + length, geo.src_margin);
  }
  return plan.sliding == Operand::kSrc || im2col::are_finite(out, to - out);
}

// Lists, for each row of dst along each axis but the last, the rows of src and of weights that meet there.
void list_pairs(const Plan& plan, const ConvProblem& p, const Geometry& geo, Line* pairs, int64_t* begins) {
  const bool src_slides = plan.sliding == Operand::kSrc;
  int64_t src_step = geo.src_pitch, tap_step = plan.pitch, count = 0;
  int64_t src_steps[kMaxSpatial], tap_steps[kMaxSpatial];
  for (int a = p.ndims - 2; a >= 0; --a) {
    src_steps[a] = src_step;
    tap_steps[a] = tap_step;
    src_step *= p.src_size[a];
    tap_step *= p.ker[a];
  }
  for (int a = 0; a < p.ndims - 1; ++a) {
    for (int64_t y = 0; y < p.dst_size[a]; ++y) {
      *begins++ = count;
      const int64_t at = y + p.pad[a], reach = (p.ker[a] - 1) * p.dilation[a];
      const int64_t first = std::max<int64_t>(0, ceil_div(at - reach, p.stride[a]));
      const int64_t end = std::min(p.src_size[a], at / p.stride[a] + 1);
      for (int64_t x = first; x < end; ++x) {
        const int64_t place = at - x * p.stride[a];
        if (place % p.dilation[a] != 0) continue;
        const int64_t src = x * src_steps[a], tap = place / p.dilation[a] * tap_steps[a];
        pairs[count++] = src_slides ? Line{src, tap} : Line{tap, src};
      }
    }
    *begins++ = count;
  }
}

// The state of a thread.
template <class T>
class Worker {
 public:
  using Cell = Sum<T>;

  Worker(const Run<T>& run, char* slice)
      : run_(run),
        plan_(run.plan),
        p_(run.problem),
        geo_(run.geometry),
        last_(run.problem.ndims - 1),
        lines_(reinterpret_cast<Line*>(slice + geo_.lines)),
        steps_(reinterpret_cast<Steps*>(slice + geo_.steps_of_tiles)),
        sums_(reinterpret_cast<Cell*>(slice + geo_.sums)),
        partial_(reinterpret_cast<Cell*>(slice + geo_.partial)),
        counts_{geo_.row_tiles, geo_.num_columns, geo_.dst_rows, plan_.g, geo_.others},
        most_steps_(ceil_div(geo_.length, plan_.shift)) {
    const bool src_slides = plan_.sliding == Operand::kSrc;
    if (geo_.rows_first) std::rotate(order_, order_ + 1, order_ + 3);
    const int64_t src_row = geo_.rows_are_images ? geo_.src_image : 0;
    const int64_t weights_row = geo_.rows_are_images ? 0 : plan_.weights_dst_channel();
    args_.sliding_channel = src_slides ? geo_.src_channel : plan_.weights_channel();
    args_.factors_channel = src_slides ? plan_.weights_channel() : geo_.src_channel;
    args_.sliding_row = src_slides ? src_row : weights_row;
    args_.factors_row = src_slides ? weights_row : src_row;
    args_.shift = plan_.shift;
    args_.bias = bias_;
  }

  // Of a group: images or channels that are not in tiles, one after the other; for each the rows of dst, and for each
  // of these the tiles; or rows first, for each tile.
  void run_item(int64_t item) {
    // Most items follow the one before, and to divide for each would take longer than a short row.
    if (item != next_item_) go_to(item);
    next_item_ = item + 1;
    const bool is_other_block = at_[kColumn] != listed_column_;
    if (is_other_block) list_tiles(at_[kColumn]);
    if (is_other_block || at_[kTile] != listed_tile_) list_rows(at_[kTile]);
    if (at_[kRow] != listed_row_) list_lines(at_[kRow]);
    run_rows(at_[kGroup], geo_.rows_are_images ? first_row_ : at_[kOther],
             geo_.rows_are_images ? at_[kOther] : first_row_);
    for (const Index index : order_) {
      if (++at_[index] < counts_[index]) break;
      at_[index] = 0;
    }
  }

 private:
  void go_to(int64_t item) {
    for (const Index index : order_) {
      at_[index] = item % counts_[index];
      item /= counts_[index];
    }
  }

  // The rows of dst of a tile, and what computes them.
  void list_rows(int64_t tile) {
    listed_tile_ = tile;
    first_row_ = even_begin(geo_.row_count, tile, geo_.row_tiles, 1);
    args_.rows = even_begin(geo_.row_count, tile + 1, geo_.row_tiles, 1) - first_row_;
    const auto find = std::get<FindTileFn<Cell>>(plan_.kernel.find);
    whole_tile_ = find(args_.rows, geo_.tiling.vectors, geo_.shares_sliding);
    last_tile_ = find(args_.rows, last_vectors_, geo_.shares_sliding);
  }

  // Lists the steps at which rows meet in the tiles of a block of columns.
  void list_tiles(int64_t column) {
    listed_column_ = column;
    first_ = column * geo_.columns;
    end_ = std::min(first_ + geo_.columns, p_.dst_size[last_]);
    Steps* steps = steps_;
    const int64_t width = geo_.tiling.vectors * plan_.lanes, shift = plan_.shift;
    for (int64_t x = first_; x < end_; x += width, ++steps) {
      const int64_t columns = std::min(width, end_ - x), at = x + p_.pad[last_];
      steps->first = std::max<int64_t>(0, ceil_div(at - geo_.length + 1, shift));
      steps->count = std::max<int64_t>(0, std::min(geo_.steps, (at + columns - 1) / shift + 1) - steps->first);
      last_vectors_ = ceil_div(columns, plan_.lanes);
    }
  }

  // Lists the pairs of rows that meet in a row of dst.
  void list_lines(int64_t row) {
    listed_row_ = row;
    offset_ = 0;
    const int64_t* begins = run_.begins;
    int64_t listed = 1, inner = geo_.dst_rows;
    lines_[0] = {0, 0};
    args_.lines = lines_;
    for (int a = 0; a < last_; ++a) {
      inner /= p_.dst_size[a];
      const int64_t y = row / inner % p_.dst_size[a];
      offset_ += y * p_.dst_x[a];
      const Line* pairs = run_.pairs + begins[y];
      const int64_t count = begins[y + 1] - begins[y];
      begins += p_.dst_size[a] + 1;
      if (last_ == 1) {
        args_.lines = pairs;
      } else {
        combine(listed, pairs, count);
      }
      listed *= count;
    }
    args_.num_lines = listed;
  }

  // Replaces each line by its sums with pairs of another axis; from the last on, as those before are still to be read.
  void combine(int64_t listed, const Line* pairs, int64_t count) {
    for (int64_t i = listed - 1; i >= 0; --i) {
      const Line outer = lines_[i];
      for (int64_t k = count - 1; k >= 0; --k) {
        lines_[i * count + k] = {outer.sliding + pairs[k].sliding, outer.factors + pairs[k].factors};
      }
    }
  }

  // Computes rows of a tile from an image and a dst channel of a group on: a block of columns.
  void run_rows(int64_t group, int64_t image, int64_t channel) {
    const int64_t first = group * plan_.oc + channel;
    const Cell* src = run_.src + image * geo_.src_image + group * plan_.ic * geo_.src_channel + geo_.src_margin;
    const Cell* weights = run_.weights + first * plan_.weights_dst_channel() + plan_.margin;
    const bool src_slides = plan_.sliding == Operand::kSrc;
    const Cell* const sliding = (src_slides ? src : weights) + p_.pad[last_];
    const Cell* const factors = src_slides ? weights : src;
    const int64_t bias_step = geo_.rows_are_images ? 0 : 1;
    Cell bias[kMostRows];
    for (int64_t r = 0; r < args_.rows; ++r) {
      bias[r] = run_.bias == nullptr ? -Cell() : Cell(widen(run_.bias[first + r * bias_step]));
      bias_[r] = geo_.direct ? bias[r] : -Cell();
    }
    const int64_t step = p_.dst_x[last_], row_step = geo_.rows_are_images ? p_.dst_n : p_.dst_c;
    T* dst = run_.dst + image * p_.dst_n + first * p_.dst_c + offset_;
    const int64_t length = end_ - first_;
    args_.type = geo_.direct ? plan_.dtype : sum_type_of(plan_.dtype);
    args_.out_row = geo_.direct ? row_step : geo_.columns;
    for (int64_t from = 0; from < plan_.ic; from += geo_.channels_together) {
      args_.channels = std::min(geo_.channels_together, plan_.ic - from);
      const Cell* from_sliding = sliding + from * args_.sliding_channel;
      const Cell* from_factors = factors + from * args_.factors_channel;
      if (geo_.direct) {
        sum_tiles(from_sliding, from_factors, dst + first_);
        continue;
      }
      sum_tiles(from_sliding, from_factors, from == 0 ? sums_ : partial_);
      for (int64_t r = 0; r < args_.rows && from > 0; ++r) {
        im2col::add_to_totals(false, partial_ + r * geo_.columns, length, sums_ + r * geo_.columns);
      }
    }
    if (geo_.direct) return;
    const Cell* left = run_.bias == nullptr ? nullptr : bias;
    left = im2col::activate(run_.kernels, p_, sums_, geo_.columns, args_.rows, length, left);
    if (step == 1) {
      const Cell* sums = sums_;
      run_.kernels.interleave.template to<T>()(
          {&sums, geo_.columns, args_.rows, length, 1, left, dst + first_, row_step, Store::kCached});
      return;
    }
    for (int64_t r = 0; r < args_.rows; ++r) {
      im2col::store(run_.kernels, p_, sums_ + r * geo_.columns, 0, 1, length, left == nullptr ? nullptr : left + r,
                    dst + r * row_step + first_ * step);
    }
  }

  // Sums some channels for the tiles of a block of columns.
  template <class Out>
  void sum_tiles(const Cell* sliding, const Cell* factors, Out* out) {
    const int64_t width = geo_.tiling.vectors * plan_.lanes, length = end_ - first_;
    const Steps* steps = steps_;
    for (int64_t x = 0; x < length; x += width, ++steps) {
      args_.columns = std::min(width, length - x);
      args_.out = out + x;
      args_.sliding = sliding + first_ + x - steps->first * plan_.shift;
      args_.factors = factors + steps->first;
      args_.steps = steps->count;
      args_.piece = piece_of(args_);
      (args_.columns == width ? whole_tile_ : last_tile_)(args_);
    }
  }

  // Whole channels, or else whole lines, or a part of one. Of the two next to what is meant, the one with the smaller
  // error.
  Piece piece_of(const TileArgs<Cell>& args) const {
    // What is not zero of the products of an output and a pair of rows.
    const int64_t of_line = std::max<int64_t>(1, std::min(args.steps, most_steps_));
    const int64_t of_channel = args.num_lines * of_line, all = of_channel * args.channels, most = geo_.piece;
    if (all <= most) return {args.channels, args.num_lines, args.steps};
    const auto nearest = [&](int64_t products) {
      const int64_t fewer = most / products;
      return fewer + (sum_error(all, (fewer + 1) * products) < sum_error(all, fewer * products) ? 1 : 0);
    };
    if (of_channel <= most) return {nearest(of_channel), args.num_lines, args.steps};
    if (of_line <= most) {
      const int64_t lines = nearest(of_line);
      return {1, lines < args.num_lines ? even_piece(args.num_lines, lines) : args.num_lines, args.steps};
    }
    const int64_t parts = ceil_div(of_line, most);
    const bool one_less = sum_error(all, of_line / (parts - 1)) < sum_error(all, of_line / parts);
    return {1, 1, ceil_div(args.steps, one_less ? parts - 1 : parts)};
  }

  const Run<T>& run_;
  const Plan& plan_;
  const ConvProblem& p_;
  const Geometry& geo_;
  const int last_;
  Line* lines_;
  Steps* steps_;
  Cell *sums_, *partial_;
  TileArgs<Cell> args_{};
  Cell bias_[kMostRows];
  // What an item is, how many there are of each, and the order in which they change, the fastest first.
  enum Index { kTile, kColumn, kRow, kGroup, kOther, kIndices };
  const int64_t counts_[kIndices];
  Index order_[kIndices] = {kTile, kColumn, kRow, kGroup, kOther};
  int64_t next_item_ = -1, at_[kIndices] = {};  // those of the next item
  // What is listed: rows of a tile, tiles of a block of columns, lines of a row of dst, and where each begins.
  int64_t listed_tile_ = -1, listed_column_ = -1, listed_row_ = -1;
  int64_t first_row_ = 0, first_ = 0, end_ = 0, offset_ = 0;
  const int64_t most_steps_;  // that meet in an output
  // Of a block of columns; the last tile may have fewer vectors.
  int64_t last_vectors_ = 0;
  TileFn<Cell> whole_tile_ = nullptr, last_tile_ = nullptr;
};

template <class T>
bool run_typed(const Plan& plan, const ConvProblem& p, const Geometry& geo, const T* src, const T* wei, const T* bias,
               T* dst, char* shared, const Parallel& parallel) {
  using Cell = Sum<T>;
  const im2col::Kernels<T> kernels(plan.arch);
  const int64_t slices = geo.num_slices(parallel.threads);
  const auto* weights = plan.packed.as<const Cell>();
  if (plan.packed.empty()) {
    weights = reinterpret_cast<const Cell*>(shared + geo.packed);
    for_each(parallel, p.oc, [&](int64_t channel) { pack_weights(plan, p, wei, channel, shared + geo.packed); });
  }
  auto* const copy = reinterpret_cast<Cell*>(shared + geo.src);
  const Cell* rows = copy;
  std::atomic<bool> finite{true};
  if (geo.copies_src) {
    const int64_t least = ceil_div(kManyCopied, std::max<int64_t>(geo.src_channel, 1));
    for_each_range(parallel, p.mb * p.ic, least, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const T* channel = src + i / p.ic * p.src_n + i % p.ic * p.src_c;
        if (!copy_src(plan, p, geo, kernels, channel, copy + i * geo.src_channel)) finite = false;
      }
    });
  } else {
    if constexpr (std::is_same_v<T, Cell>) rows = src;
    for_each_range(parallel, p.mb * geo.src_image, kManyCopied, [&](int64_t begin, int64_t end) {
      if constexpr (!std::is_same_v<T, Cell>) kernels.load(src + begin, 1, end - begin, copy + begin);
      if (!im2col::are_finite(rows + begin, end - begin)) finite = false;
    });
  }
  if (!finite) return false;
  auto* const pairs = reinterpret_cast<Line*>(shared + geo.pairs);
  auto* const begins = reinterpret_cast<int64_t*>(shared + geo.begins);
  list_pairs(plan, p, geo, pairs, begins);
  const Run<T> run{plan, p, geo, kernels, weights, rows, pairs, begins, bias, dst};
  Ranges ranges(geo.items, 1, 1, slices);
  for_each(parallel, slices, [&](int64_t i) {
    Worker<T> worker(run, shared + geo.slices + static_cast<size_t>(i) * geo.slice_bytes);
    ranges.for_each_item([&](int64_t item) { worker.run_item(item); });
  });
  return true;
}

}  // namespace

size_t scratch_bytes(const Plan& plan, const ConvProblem& full, int threads) {
  const Geometry geometry(plan, full);
  return geometry.slices + static_cast<size_t>(geometry.num_slices(threads)) * geometry.slice_bytes;
}

bool run(const Plan& plan, const ConvProblem& full, const void* src, const void* wei, const void* bias, void* dst,
         void* scratch, const Parallel& parallel) {
  const Geometry geo(plan, full);
  return with_float_type(plan.dtype, [&](auto zero) {
    using T = decltype(zero);
    return run_typed(plan, full, geo, static_cast<const T*>(src), static_cast<const T*>(wei),
                     static_cast<const T*>(bias), static_cast<T*>(dst), static_cast<char*>(scratch), parallel);
  });
}

}  // namespace ortconv::kernels::sliding_rows

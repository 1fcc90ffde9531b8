#include "kernels/gemm_col2im/multiplier.h"

#include <algorithm>
#include <type_traits>

#include "kernels/gemm_col2im/copy.h"
#include "kernels/gemm_col2im/walk.h"

namespace ortconv::kernels::gemm_col2im {
namespace {

constexpr int64_t kLeastLanes = 8;  // of the vectors of the GEMM

using im2col::whole_vectors;

}  // namespace

template <class In>
Multiplier<In>::Multiplier(const Operands<In>& operands, const Part& part, const PartLists& lists,
                           const ProductRoom<Cell>& room, Cell* copied, Copies* copies)
    : operands_(operands),
      plan_(operands.plan),
      geo_(operands.geometry),
      problem_(operands.problem),
      part_(part),
      lists_(lists),
      out_(room),
      copied_(copied),
      copies_(*copies),
      pitch_(im2col::pitch_of(geo_.tile_columns)),
      src_(operands.src + part.image * problem_.src_n + part.group * plan_.ic * problem_.src_c),
      columns_(columns_of(geo_, part)) {}

// At most `depth` channels of src: in place, or the copy.
template <class In>
auto Multiplier<In>::source(const Tile& tile, int64_t channel, int64_t depth, bool accumulate) const -> Source {
  if (geo_.dots) return {channel, depth, src_ + channel, nullptr, 1, nullptr, accumulate};
  const In* in = src_ + channel * problem_.src_c + geo_.axis[0].x_begin * geo_.inner_x + tile.begin;
  if (geo_.reads_in_place) {
    for (int64_t k = 0; k < depth && geo_.prefetches_src; ++k) {
      prefetch<Cache::kL2>(in + k * problem_.src_c, tile.columns);
    }
    return {channel, depth, in, nullptr, problem_.src_c, nullptr, accumulate};
  }
  const int64_t index =
      (tile.begin - columns_.origin) / geo_.most_columns - (columns_.begin - columns_.origin) / geo_.most_columns;
  const int64_t place = std::min(index, geo_.src_copies - 1);
  Cell* const out = copied_ + place * geo_.src_copy_size;
  const CopiedTile wanted{part_.image, part_.group, tile.begin, tile.columns, channel, depth};
  CopiedTile& copied = copies_[static_cast<size_t>(place)];
  const bool is_there = copied == wanted;
  copied = wanted;
  const SrcCopy<In> copy{geo_, problem_, operands_.kernels, src_};
  if (!is_there && geo_.copied_by_gemm && multiplies_first_panel(tile)) {
    Tile rest = tile;
    rest.columns %= geo_.strip;
    rest.begin += tile.columns - rest.columns;
    copy.strips(rest, channel, depth, out + (rest.begin - tile.begin) * depth);
    return {channel, depth, in, out, pitch_, out, accumulate};
  }
  if (!is_there) geo_.in_strips ? copy.strips(tile, channel, depth, out) : copy.rows(tile, channel, depth, pitch_, out);
  return {channel, depth, nullptr, out, pitch_, nullptr, accumulate};
}

template <class In>
auto Multiplier<In>::multiply(const Tile& tile) const -> const Cell* {
  const bool has_totals = im2col::has_totals(plan_.ic);
  // Of a tile of src that stays in L2 all channels, and so the weights of a panel one after the other.
  const int64_t span = geo_.all_depth ? plan_.ic : geo_.depth;
  bool first_total = true;
  int64_t calls = 0;
  for (int64_t channel = 0; channel < plan_.ic; channel += span) {
    const Source part = source(tile, channel, std::min(span, plan_.ic - channel), calls > 0);
    geo_.dots ? multiply_rows(tile, part) : multiply_panels(tile, part);
    ++calls;
    if (!has_totals || (calls < im2col::kMostCalls && channel + span < plan_.ic)) continue;
    if (geo_.wide) {
      im2col::add_to_totals(first_total, out_.transposed, tile.columns * geo_.transposed_pitch, out_.totals);
    } else {
      im2col::add_to_totals(first_total, out_.products, (tile.row_end - tile.row_begin) * pitch_, out_.totals);
    }
    first_total = false;
    calls = 0;
  }
  if (geo_.by_rows) return nullptr;
  if (geo_.wide) return transpose(tile, has_totals ? out_.totals : out_.transposed);
  return has_totals ? out_.totals : out_.products;
}

// Turns rows of products into columns.
template <class In>
auto Multiplier<In>::transpose(const Tile& tile, const Cell* products) const -> const Cell* {
  Cell* out = out_.products;
  int64_t pitch = pitch_;
  if (geo_.direct) {  // every row has a slot
    out = out_.sums + (tile.row_begin - part_.channel * plan_.taps) * geo_.slot_size + tile.begin - columns_.begin;
    pitch = geo_.slot_size;
  }
  operands_.kernels.transpose.template to<Cell>()(products + tile.row_begin % geo_.panel_height, geo_.transposed_pitch,
                                                  tile.columns, tile.row_end - tile.row_begin, nullptr, out, pitch);
  return out;
}

// Multiplies single rows of weights with single positions, whose channels are next to each other.
template <class In>
void Multiplier<In>::multiply_rows(const Tile& tile, const Source& source) const {
  if constexpr (std::is_same_v<In, Cell>) {
    const auto dots = operands_.kernels.dots.template to<Cell>();
    const int64_t rows = tile.row_end - tile.row_begin, last = geo_.ndims - 1;
    const Cell* weights = weights_from<Cell>((part_.group * plan_.rows() + tile.row_begin) * plan_.ic + source.channel);
    for_each_run(geo_, static_cast<int>(last), 1, tile.begin, tile.begin + tile.columns,
                 [&](int64_t column, int64_t length, const int64_t* x, int64_t) {
                   const Cell* in = source.in;
                   for (int64_t a = 0; a <= last; ++a) in += (geo_.axis[a].x_begin + x[a]) * geo_.axis[a].src_x;
                   for (int64_t i = 0; i < length; ++i, in += geo_.axis[last].src_x) {
                     Cell* out = out_.transposed + (column + i) * geo_.transposed_pitch;
                     dots({in, weights, plan_.ic, source.depth, rows, out, in});
                   }
                 });
  }
}

// Calls fn(panel, args) for those of a tile, which fill in what differs: a call of the GEMM may take less time than
// filling in everything.
template <class In>
template <class B, class Fn>
void Multiplier<In>::for_each_panel(const Tile& tile, Fn fn) const {
  const int64_t height = geo_.panel_height, no_offset = 0;
  const BasicGemmArgs<Cell, B> args{0, 0, 1, 0, nullptr, nullptr, &no_offset, 0, nullptr, geo_.piece, false};
  for (int64_t panel = tile.row_begin / height; panel * height < tile.row_end; ++panel) fn(panel, args);
}

template <class In>
void Multiplier<In>::multiply_panels(const Tile& tile, const Source& source) const {
  if constexpr (std::is_same_v<In, float>) {
    if (geo_.wide && plan_.widens) {
      return plan_.dtype == DataType::kFloat16 ? multiply_wide_panels<Float16>(tile, source)
                                               : multiply_wide_panels<Bfloat16>(tile, source);
    }
  }
  if (geo_.wide) return multiply_wide_panels<Cell>(tile, source);
  for_each_panel<Cell>(tile, [&](int64_t panel, const auto& args) { multiply_panel(tile, panel, source, args); });
}

template <class In>
template <class Weight>
void Multiplier<In>::multiply_wide_panels(const Tile& tile, const Source& source) const {
  for_each_panel<Weight>(tile,
                         [&](int64_t panel, const auto& args) { multiply_wide_panel(tile, panel, source, args); });
}

// As multiply_panel(), with src as the A operand, whose rows are positions.
template <class In>
template <class Weight>
void Multiplier<In>::multiply_wide_panel(const Tile& tile, int64_t panel, const Source& source,
                                         BasicGemmArgs<Cell, Weight> args) const {
  const int64_t panel_begin = panel * geo_.panel_height,
                ldb = std::min(geo_.panel_height, plan_.wide_rows() - panel_begin);
  int64_t begin = std::max(panel_begin, tile.row_begin);
  const int64_t end = std::min(panel_begin + ldb, tile.row_end);
  if (lists_.meets_nothing(tile, begin, end)) return;
  // Whole vectors of the panel: products of rows that are not of the tile lie beside its own.
  begin = panel_begin + (begin - panel_begin) / kGemmColumns * kGemmColumns;
  const int64_t first_row = part_.group * plan_.wide_rows() + panel_begin;
  const Weight* b = weights_from<Weight>(first_row * plan_.ic + source.channel * ldb + (begin - panel_begin));
  Cell* out = out_.transposed + begin - tile.row_begin / geo_.panel_height * geo_.panel_height;
  const int64_t height = even_height(tile.columns, plan_.mr), calls = ceil_div(tile.columns, height);
  const Cell* a = source.copied;
  if constexpr (std::is_same_v<In, Cell>) {
    if (a == nullptr) a = source.in;
  }
  const auto run = operands_.kernels.gemm.template of<Weight>();
  Cell* c[kMaxRows];
  args.cols = std::min(align_up(end, kLeastLanes), panel_begin + ldb) - begin;
  args.ldb = ldb, args.lda = source.step, args.c = c;
  for (int64_t k = 0; k < source.depth; k += geo_.depth) {
    args.k = std::min(geo_.depth, source.depth - k);
    args.b = b + k * ldb;
    args.accumulate = source.accumulate || k > 0;
    const int64_t size = args.k * ldb;
    const Weight* next = b + (geo_.all_depth ? k * ldb + size : plan_.ic * ldb);  // weights
    for (int64_t x = 0, call = 0; x < tile.columns; x += height, ++call) {
      if (geo_.prefetches) prefetch<Cache::kL2>(next + size * call / calls, size / calls);
      args.rows = std::min(height, tile.columns - x);
      args.a = a + k * source.step + x;
      for (int64_t i = 0; i < args.rows; ++i) c[i] = out + (x + i) * geo_.transposed_pitch;
      run(args);
    }
  }
}

template <class In>
auto Multiplier<In>::rows_of(const Tile& tile, int64_t panel) const -> Rows {
  const int64_t begin = panel * plan_.height, end = std::min(begin + plan_.height, plan_.rows());
  return {std::max(begin, tile.row_begin), std::min(end, tile.row_end)};
}

template <class In>
bool Multiplier<In>::multiplies_first_panel(const Tile& tile) const {
  const auto [begin, end] = rows_of(tile, tile.row_begin / plan_.height);
  return !lists_.meets_nothing(tile, begin, end);
}

template <class In>
void Multiplier<In>::multiply_panel(const Tile& tile, int64_t panel, const Source& source,
                                    BasicGemmArgs<Cell> args) const {
  const auto [begin, end] = rows_of(tile, panel);
  if (lists_.meets_nothing(tile, begin, end)) return;
  const int64_t panel_begin = panel * plan_.height, lda = std::min(plan_.height, plan_.rows() - panel_begin);
  const int64_t rows = end - begin;
  Cell *c[kMaxRows], *products = out_.products + (begin - tile.row_begin) * pitch_;
  int64_t tap = begin % plan_.taps, channel = begin / plan_.taps - part_.channel;
  for (int64_t r = 0; r < rows; ++r) {
    if (!geo_.direct) {
      c[r] = products + r * pitch_;
      continue;
    }
    // The slots are those of the taps.
    const int64_t at = channel * out_.channel_pitch + tap * geo_.slot_size + tile.begin - columns_.begin;
    c[r] = geo_.in_dst ? moved_in_dst(reinterpret_cast<Cell*>(out_.dst), at) : out_.sums + at;
    if (++tap == plan_.taps) tap = 0, ++channel;
  }
  Cell bias[kMaxRows];
  if (geo_.in_dst && sizeof(Cell) != size_of(plan_.dtype)) {
    args.rounding = plan_.rounding;
    args.bias = load_bias({begin, end}, bias);
  }
  const int64_t first_row = part_.group * plan_.rows() + panel_begin;
  const Cell* a = weights_from<Cell>(first_row * plan_.ic + source.channel * lda + (begin - panel_begin));
  const bool is_first = begin == tile.row_begin;  // the others find src in the cache
  // The rows of a copy end with zeros, and loads of a part of a vector take longer; but dst has no room for their sums.
  const int64_t granule = geo_.in_dst ? 1 : kLeastLanes;
  args.rows = rows, args.lda = lda, args.far_a = geo_.far_weights;
  // The same arguments with src as it lies.
  const auto of_src = [&](const In* b, int64_t ldb, int64_t columns, Cell* const* out) {
    BasicGemmArgs<Cell, In> g{rows, columns, 1,          args.k,         args.a, b, args.tap_offset,
                              ldb,  out,     args.piece, args.accumulate};
    g.lda = lda, g.far_a = args.far_a, g.rounding = args.rounding, g.bias = args.bias;
    return g;
  };
  for (int64_t k = 0; k < source.depth; k += geo_.depth) {
    args.k = std::min(geo_.depth, source.depth - k);
    args.a = a + k * lda;
    args.accumulate = source.accumulate || k > 0;
    if (source.copied == nullptr) {
      BasicGemmArgs<Cell, In> in_place = of_src(source.in + k * source.step, source.step, tile.columns, c);
      in_place.far_b = is_first && !geo_.near_src;
      multiply_columns(in_place);
      continue;
    }
    if (!geo_.in_strips) {
      args.cols = align_up(tile.columns, granule), args.ldb = source.step;
      args.b = source.copied + k * source.step;
      args.c = c;
      multiply_columns(args);
      continue;
    }
    // Strip by strip, but the GEMM may take all strips at once. From `column` on:
    Cell* out[kMaxRows];
    const auto multiply_copy = [&](int64_t column, int64_t columns) {
      args.cols = align_up(columns, granule), args.ldb = whole_vectors(std::min(columns, geo_.strip));
      args.b = source.copied + column * source.depth + k * args.ldb;
      args.c = out;
      for (int64_t r = 0; r < rows; ++r) out[r] = geo_.in_dst ? moved_in_dst(c[r], column) : c[r] + column;
      multiply_columns(args);
    };
    if (!plan_.takes_strips) {
      for (int64_t column = 0; column < tile.columns; column += geo_.strip) {
        multiply_copy(column, std::min(geo_.strip, tile.columns - column));
      }
      continue;
    }
    args.strip_step = source.depth * kGemmColumns;
    const int64_t whole = is_first && source.to_write != nullptr ? tile.columns / kGemmColumns * kGemmColumns : 0;
    if (whole > 0) {
      BasicGemmArgs<Cell, In> copying = of_src(source.in + k * problem_.src_c, problem_.src_c, whole, c);
      copying.copy_of_b = source.to_write + k * kGemmColumns, copying.strip_step = args.strip_step;
      multiply_columns(copying);
    }
    if (whole < tile.columns) multiply_copy(whole, tile.columns - whole);
  }
}

// Moves a row of sums by n of the numbers that dst has.
template <class In>
auto Multiplier<In>::moved_in_dst(Cell* row, int64_t n) const -> Cell* {
  return reinterpret_cast<Cell*>(reinterpret_cast<char*>(row) + n * static_cast<int64_t>(size_of(plan_.dtype)));
}

// Returns the bias of some rows, of channels of dst of 16 bits, in `to`; null if there is none.
template <class In>
auto Multiplier<In>::load_bias(const Rows& rows, Cell* to) const -> const Cell* {
  if (operands_.bias == nullptr) return nullptr;
  with_float_type(plan_.dtype, [&](auto zero) {
    const auto* const bias = static_cast<const decltype(zero)*>(operands_.bias) + part_.group * plan_.oc;
    for (int64_t row = rows.begin; row < rows.end; ++row) to[row - rows.begin] = static_cast<Cell>(widen(bias[row]));
  });
  return to;
}

// Calls the GEMM, which writes whole vectors: in dst, what lies beyond the last column are other channels.
template <class In>
template <class B>
void Multiplier<In>::multiply_columns(const BasicGemmArgs<Cell, B>& args) const {
  if (!geo_.in_dst || args.cols % kGemmColumns == 0) return operands_.kernels.gemm.template of<B>()(args);
  args.rounding == Rounding::kNone ? multiply_into_dst<Cell>(args) : multiply_into_dst<Float16>(args);
}

// Number: as large as those of dst.
template <class In>
template <class Number, class B>
void Multiplier<In>::multiply_into_dst(const BasicGemmArgs<Cell, B>& all) const {
  const auto run = operands_.kernels.gemm.template of<B>();
  const int64_t whole = all.cols / kGemmColumns * kGemmColumns, rest_columns = all.cols - whole;
  BasicGemmArgs<Cell, B> args = all;
  if (whole > 0) {
    args.cols = whole;
    run(args);
  }
  Number rest[kMaxRows][kGemmColumns];
  Cell* c[kMaxRows];
  const auto in_dst = [&](int64_t r) { return reinterpret_cast<Number*>(all.c[r]) + whole; };
  for (int64_t r = 0; r < args.rows; ++r) {
    c[r] = reinterpret_cast<Cell*>(rest[r]);
    if (!args.accumulate) continue;
    std::fill_n(rest[r], kGemmColumns, Number());
    std::copy_n(in_dst(r), rest_columns, rest[r]);
  }
  args.cols = rest_columns;
  args.b += args.strip_step == 0 ? whole : whole / kGemmColumns * args.strip_step;
  args.c = c;
  run(args);
  for (int64_t r = 0; r < args.rows; ++r) std::copy_n(rest[r], rest_columns, in_dst(r));
}

#define INSTANTIATE(In) template class Multiplier<In>;
ORTCONV_FLOAT_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace ortconv::kernels::gemm_col2im

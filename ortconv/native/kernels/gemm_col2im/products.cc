#include <algorithm>
#include <type_traits>

#include "kernels/gemm_col2im/add.h"
#include "kernels/gemm_col2im/copy.h"
#include "kernels/gemm_col2im/item.h"
#include "kernels/gemm_col2im/lists.h"
#include "kernels/gemm_col2im/tiles.h"
#include "kernels/gemm_col2im/walk.h"

namespace ortconv::kernels::gemm_col2im {
namespace {

constexpr int64_t kLeastLanes = 8;  // of the vectors of the GEMM

using im2col::pitch_of;
using im2col::whole_vectors;

template <class In>
class Worker {
 public:
  using Cell = Sum<In>;

  // Some channels of src, `step` apart, whose products begin a sum or go on with it.
  struct Source {
    int64_t channel, depth;
    const In* in;        // in place
    const Cell* copied;  // null where they are read in place
    int64_t step;
    bool accumulate;
  };

  // The sums are in `sums`, a slice, too.
  Worker(const Operands<In>& operands, const Part& part, char* slice, char* sums, Held* held)
      : operands_(operands),
        plan_(operands.plan),
        geo_(operands.geometry),
        problem_(operands.problem),
        part_(part),
        listed_(held->listed),
        copies_(held->copies),
        pitch_(pitch_of(geo_.tile_columns)),
        channel_pitch_(geo_.channel_size),
        room_{at<Segment>(slice, geo_.segments), at<Row>(slice, geo_.rows), at<int64_t>(slice, geo_.shifts)},
        copy_(at<Cell>(slice, geo_.src)),
        products_(at<Cell>(slice, geo_.products)),
        transposed_(at<Cell>(slice, geo_.transposed)),
        totals_(at<Cell>(slice, geo_.totals)),
        sums_(at<Cell>(sums, geo_.sums)),
        columns_(columns_of(geo_, part)) {
    use(room_);
    if (const TileLists* lists = operands.lists) {
      segments_ = lists->segments.data(), rows_ = lists->rows.data(), shifts_ = lists->shifts.data();
      listed_ = lists->listed;
    }
    if (geo_.in_dst) {
      channel_pitch_ = problem_.dst_c;
      sums_ = operands.dst + part.image * problem_.dst_n + (part.group * plan_.oc + part.channel) * channel_pitch_ +
              part.j_begin * geo_.inner_j;
    }
    src_ = operands.src + part.image * problem_.src_n + part.group * plan_.ic * problem_.src_c;
  }

  void add_all();
  void multiply_range(int64_t range, const SharedPart& shared);
  void add_shared(const SharedPart& shared);

 private:
  bool list(const Tile& tile);
  void use(const ListRoom& room) { segments_ = room.segments, rows_ = room.rows, shifts_ = room.shifts; }
  template <class Fn>
  void for_each_row(const Tile& tile, int64_t begin, int64_t end, Fn fn) const;
  bool meets_nothing(const Tile& tile, int64_t begin, int64_t end) const;
  int64_t row_begin() const { return part_.channel * plan_.taps; }
  int64_t row_end() const { return (part_.channel + part_.channels) * plan_.taps; }
  Cell* shared_products(const SharedPart& shared, const Tile& tile) const;
  template <class Fn>
  void for_each_tile(int64_t begin, int64_t end, int64_t row_begin, int64_t row_end, Fn fn);
  Source source(const Tile& tile, int64_t channel, int64_t depth, bool accumulate) const;
  const Cell* multiply(const Tile& tile) const;
  template <class B, class Fn>
  void for_each_panel(const Tile& tile, Fn fn) const;
  void multiply_panels(const Tile& tile, const Source& source) const;
  template <class Weight>
  void multiply_wide_panels(const Tile& tile, const Source& source) const;
  template <class T>
  const T* weights_from(int64_t offset) const {
    return static_cast<const T*>(operands_.packed) + offset;
  }
  void multiply_panel(const Tile& tile, int64_t panel, const Source& source, BasicGemmArgs<Cell> args) const;
  template <class B>
  void multiply_columns(const BasicGemmArgs<Cell, B>& all) const;
  template <class Weight>
  void multiply_wide_panel(const Tile& tile, int64_t panel, const Source& source,
                           BasicGemmArgs<Cell, Weight> args) const;
  void multiply_rows(const Tile& tile, const Source& source) const;
  const Cell* transpose(const Tile& tile, const Cell* products) const;
  void add(const Tile& tile, const Cell* products) const;
  int64_t j_count(int a) const { return a == 0 ? part_.j_count : geo_.axis[a].j_count; }  // of the part
  bool is_inside(const Segment& segment, const int64_t* shifts, int axes) const;
  void add_some(const Row& row, const Cell* in, Cell* sums) const;
  void add_lines(const int64_t* shifts, const Cell* in, int64_t length, Cell* out) const;
  void add_segments(const Cell* in, const Segment* begin, const Segment* end, int64_t length, Cell* out) const;

  const Operands<In>& operands_;
  const Plan& plan_;
  const Geometry& geo_;
  const ConvProblem& problem_;
  const Part& part_;
  Listed& listed_;
  std::array<CopiedTile, kMostCopies>& copies_;
  const int64_t pitch_;
  int64_t channel_pitch_;  // of sums
  const In* src_;
  const ListRoom room_;  // for what is not listed before
  const Segment* segments_;
  const Row* rows_;
  const int64_t* shifts_;
  Cell *copy_, *products_, *transposed_, *totals_, *sums_;
  const Columns columns_;
};

// Lists what the tile needs that is not listed yet. False where no row of it meets anything.
template <class In>
bool Worker<In>::list(const Tile& tile) {
  if (geo_.direct) return true;
  if (list_tile(plan_, geo_, part_, tile, room_, &listed_)) use(room_);
  return listed_.any_meets;
}

// Calls fn(row, sums) for the taps of the rows [begin, end) of a tile, and where their channel's sums begin.
template <class In>
template <class Fn>
void Worker<In>::for_each_row(const Tile& tile, int64_t begin, int64_t end, Fn fn) const {
  int64_t tap = begin % plan_.taps;
  Cell* sums = sums_ + (begin / plan_.taps - part_.channel) * geo_.channel_size;
  const Row* row = rows_ + (geo_.lists_taps_once ? tap : begin - tile.row_begin);
  for (int64_t i = begin; i < end; ++i, ++row) {
    fn(*row, sums);
    if (++tap < plan_.taps) continue;
    tap = 0, sums += geo_.channel_size;
    if (geo_.lists_taps_once) row -= plan_.taps;
  }
}

// Whether no product of the rows [begin, end) goes anywhere.
template <class In>
bool Worker<In>::meets_nothing(const Tile& tile, int64_t begin, int64_t end) const {
  if (geo_.direct || listed_.all_meet) return false;
  bool any = false;
  for_each_row(tile, begin, end, [&](const Row& row, Cell*) { any |= row.meets != Meets::kNothing; });
  return !any;
}

// At most `depth` channels of src: in place, or the copy.
template <class In>
auto Worker<In>::source(const Tile& tile, int64_t channel, int64_t depth, bool accumulate) const -> Source {
  if (geo_.dots) return {channel, depth, src_ + channel, nullptr, 1, accumulate};
  const In* in = src_ + channel * problem_.src_c + geo_.axis[0].x_begin * geo_.inner_x + tile.begin;
  if (geo_.reads_in_place) {
    for (int64_t k = 0; k < depth && geo_.prefetches_src; ++k) prefetch(in + k * problem_.src_c, tile.columns);
    return {channel, depth, in, nullptr, problem_.src_c, accumulate};
  }
  const int64_t index =
      (tile.begin - columns_.origin) / geo_.most_columns - (columns_.begin - columns_.origin) / geo_.most_columns;
  const int64_t place = std::min(index, geo_.src_copies - 1);
  Cell* const out = copy_ + place * geo_.src_copy_size;
  const CopiedTile wanted{part_.image, part_.group, tile.begin, tile.columns, channel, depth};
  CopiedTile& copied = copies_[static_cast<size_t>(place)];
  if (copied != wanted) {
    const SrcCopy<In> copy{geo_, problem_, operands_.kernels, src_};
    geo_.in_strips ? copy.strips(tile, channel, depth, out) : copy.rows(tile, channel, depth, pitch_, out);
    copied = wanted;
  }
  return {channel, depth, nullptr, out, pitch_, accumulate};
}

// The products of a tile, [row][column], unless they are the sums.
template <class In>
auto Worker<In>::multiply(const Tile& tile) const -> const Cell* {
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
      im2col::add_to_totals(first_total, transposed_, tile.columns * geo_.transposed_pitch, totals_);
    } else {
      im2col::add_to_totals(first_total, products_, (tile.row_end - tile.row_begin) * pitch_, totals_);
    }
    first_total = false;
    calls = 0;
  }
  if (geo_.by_rows) return nullptr;
  if (geo_.wide) return transpose(tile, has_totals ? totals_ : transposed_);
  return has_totals ? totals_ : products_;
}

// Turns rows of products into columns.
template <class In>
auto Worker<In>::transpose(const Tile& tile, const Cell* products) const -> const Cell* {
  Cell* out = products_;
  int64_t pitch = pitch_;
  if (geo_.direct) {  // every row has a slot
    out = sums_ + (tile.row_begin - part_.channel * plan_.taps) * geo_.slot_size + tile.begin - columns_.begin;
    pitch = geo_.slot_size;
  }
  operands_.kernels.transpose.template to<Cell>()(products + tile.row_begin % geo_.panel_height, geo_.transposed_pitch,
                                                  tile.columns, tile.row_end - tile.row_begin, nullptr, out, pitch);
  return out;
}

// Multiplies single rows of weights with single positions, whose channels are next to each other.
template <class In>
void Worker<In>::multiply_rows(const Tile& tile, const Source& source) const {
  if constexpr (std::is_same_v<In, Cell>) {
    const auto dots = operands_.kernels.dots.template to<Cell>();
    const int64_t rows = tile.row_end - tile.row_begin, last = geo_.ndims - 1;
    const Cell* weights = weights_from<Cell>((part_.group * plan_.rows() + tile.row_begin) * plan_.ic + source.channel);
    for_each_run(geo_, static_cast<int>(last), 1, tile.begin, tile.begin + tile.columns,
                 [&](int64_t column, int64_t length, const int64_t* x, int64_t) {
                   const Cell* in = source.in;
                   for (int64_t a = 0; a <= last; ++a) in += (geo_.axis[a].x_begin + x[a]) * geo_.axis[a].src_x;
                   for (int64_t i = 0; i < length; ++i, in += geo_.axis[last].src_x) {
                     Cell* out = transposed_ + (column + i) * geo_.transposed_pitch;
                     dots({in, weights, plan_.ic, source.depth, rows, out, in});
                   }
                 });
  }
}

// Calls fn(panel, args) for those of a tile, which fill in what differs: a call of the GEMM may take less time than
// filling in everything.
template <class In>
template <class B, class Fn>
void Worker<In>::for_each_panel(const Tile& tile, Fn fn) const {
  const int64_t height = geo_.panel_height, no_offset = 0;
  const BasicGemmArgs<Cell, B> args{0, 0, 1, 0, nullptr, nullptr, &no_offset, 0, nullptr, geo_.piece, false};
  for (int64_t panel = tile.row_begin / height; panel * height < tile.row_end; ++panel) fn(panel, args);
}

template <class In>
void Worker<In>::multiply_panels(const Tile& tile, const Source& source) const {
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
void Worker<In>::multiply_wide_panels(const Tile& tile, const Source& source) const {
  for_each_panel<Weight>(tile,
                         [&](int64_t panel, const auto& args) { multiply_wide_panel(tile, panel, source, args); });
}

// As multiply_panel(), with src as the A operand, whose rows are positions.
template <class In>
template <class Weight>
void Worker<In>::multiply_wide_panel(const Tile& tile, int64_t panel, const Source& source,
                                     BasicGemmArgs<Cell, Weight> args) const {
  const int64_t panel_begin = panel * geo_.panel_height,
                ldb = std::min(geo_.panel_height, plan_.wide_rows() - panel_begin);
  int64_t begin = std::max(panel_begin, tile.row_begin);
  const int64_t end = std::min(panel_begin + ldb, tile.row_end);
  if (meets_nothing(tile, begin, end)) return;
  // Whole vectors of the panel: products of rows that are not of the tile lie beside its own.
  begin = panel_begin + (begin - panel_begin) / kGemmColumns * kGemmColumns;
  const int64_t first_row = part_.group * plan_.wide_rows() + panel_begin;
  const Weight* b = weights_from<Weight>(first_row * plan_.ic + source.channel * ldb + (begin - panel_begin));
  Cell* out = transposed_ + begin - tile.row_begin / geo_.panel_height * geo_.panel_height;
  const int64_t height = even_height(tile.columns, plan_.mr), calls = ceil_div(tile.columns, height);
  const Cell* a = source.copied;
  if constexpr (std::is_same_v<In, Cell>) {
    if (a == nullptr) a = source.in;
  }
  const auto run = operands_.kernels.gemm.template of<Weight>();
  Cell* c[kMaxRows];
  args.cols = end - begin, args.ldb = ldb, args.lda = source.step, args.c = c;
  for (int64_t k = 0; k < source.depth; k += geo_.depth) {
    args.k = std::min(geo_.depth, source.depth - k);
    args.b = b + k * ldb;
    args.accumulate = source.accumulate || k > 0;
    const int64_t size = args.k * ldb;
    const Weight* next = b + (geo_.all_depth ? k * ldb + size : plan_.ic * ldb);  // weights
    for (int64_t x = 0, call = 0; x < tile.columns; x += height, ++call) {
      if (geo_.prefetches) prefetch(next + size * call / calls, size / calls);
      args.rows = std::min(height, tile.columns - x);
      args.a = a + k * source.step + x;
      for (int64_t i = 0; i < args.rows; ++i) c[i] = out + (x + i) * geo_.transposed_pitch;
      run(args);
    }
  }
}

template <class In>
void Worker<In>::multiply_panel(const Tile& tile, int64_t panel, const Source& source, BasicGemmArgs<Cell> args) const {
  const int64_t panel_begin = panel * plan_.height, lda = std::min(plan_.height, plan_.rows() - panel_begin);
  const int64_t begin = std::max(panel_begin, tile.row_begin);
  const int64_t rows = std::min(panel_begin + lda, tile.row_end) - begin;
  if (meets_nothing(tile, begin, begin + rows)) return;
  Cell *c[kMaxRows], *products = products_ + (begin - tile.row_begin) * pitch_;
  int64_t tap = begin % plan_.taps, channel = begin / plan_.taps - part_.channel;
  for (int64_t r = 0; r < rows; ++r) {
    if (!geo_.direct) {
      c[r] = products + r * pitch_;
      continue;
    }
    // The slots are those of the taps.
    c[r] = sums_ + channel * channel_pitch_ + tap * geo_.slot_size + tile.begin - columns_.begin;
    if (++tap == plan_.taps) tap = 0, ++channel;
  }
  const int64_t first_row = part_.group * plan_.rows() + panel_begin;
  const Cell* a = weights_from<Cell>(first_row * plan_.ic + source.channel * lda + (begin - panel_begin));
  const bool is_first = begin == part_.channel * plan_.taps;  // the others find src in the cache
  // The rows of a copy end with zeros, and loads of a part of a vector take longer; but dst has no room for their sums.
  const int64_t granule = geo_.in_dst ? 1 : kLeastLanes;
  args.rows = rows, args.lda = lda;
  for (int64_t k = 0; k < source.depth; k += geo_.depth) {
    args.k = std::min(geo_.depth, source.depth - k);
    args.a = a + k * lda;
    args.accumulate = source.accumulate || k > 0;
    if (source.copied == nullptr) {
      BasicGemmArgs<Cell, In> in_place{
          rows,       tile.columns,   1, args.k, args.a, source.in + k * source.step, args.tap_offset, source.step, c,
          args.piece, args.accumulate};
      in_place.lda = lda;
      in_place.far_b = is_first && !geo_.near_src;
      in_place.far_a = geo_.far_weights;
      multiply_columns(in_place);
      continue;
    }
    args.far_a = geo_.far_weights;
    if (!geo_.in_strips) {
      args.cols = align_up(tile.columns, granule), args.ldb = source.step;
      args.b = source.copied + k * source.step;
      args.c = c;
      multiply_columns(args);
      continue;
    }
    Cell* strip[kMaxRows];
    args.c = strip;
    for (int64_t column = 0; column < tile.columns; column += geo_.strip) {
      const int64_t columns = std::min(geo_.strip, tile.columns - column);
      args.cols = align_up(columns, granule), args.ldb = whole_vectors(columns);
      args.b = source.copied + column * source.depth + k * args.ldb;
      for (int64_t r = 0; r < rows; ++r) strip[r] = c[r] + column;
      multiply_columns(args);
    }
  }
}

// Calls the GEMM, which writes whole vectors: in dst, what lies beyond the last column are other channels.
template <class In>
template <class B>
void Worker<In>::multiply_columns(const BasicGemmArgs<Cell, B>& all) const {
  const auto run = operands_.kernels.gemm.template of<B>();
  const int64_t whole = all.cols / kGemmColumns * kGemmColumns, rest_columns = all.cols - whole;
  if (!geo_.in_dst || rest_columns == 0) return run(all);
  BasicGemmArgs<Cell, B> args = all;
  if (whole > 0) {
    args.cols = whole;
    run(args);
  }
  Cell rest[kMaxRows][kGemmColumns];
  Cell* c[kMaxRows];
  for (int64_t r = 0; r < args.rows; ++r) {
    c[r] = rest[r];
    if (!args.accumulate) continue;
    std::fill_n(rest[r], kGemmColumns, Cell());
    std::copy_n(args.c[r] + whole, rest_columns, rest[r]);
  }
  Cell* const* out = args.c;
  args.cols = rest_columns;
  args.b += whole;
  args.c = c;
  run(args);
  for (int64_t r = 0; r < args.rows; ++r) std::copy_n(rest[r], rest_columns, out[r] + whole);
}

// Adds to the same positions of the segments [begin, end).
template <class In>
void Worker<In>::add_segments(const Cell* in, const Segment* begin, const Segment* end, int64_t length,
                              Cell* out) const {
  if (length <= kShort) return kAddShort<Cell>[static_cast<size_t>(length)](in, begin, end, out);
  for (const Segment *s = begin, *next; s != end; s = next) {
    // Those that follow each other evenly, at once.
    next = s + 1;
    const int64_t in_step = next == end ? 0 : next->column - s->column;
    const int64_t out_step = next == end ? 0 : next->offset - s->offset;
    while (next != end && next->column - next[-1].column == in_step && next->offset - next[-1].offset == out_step) {
      ++next;
    }
    operands_.kernels.add_rows.template run<Cell>(
        {next - s, length, in + s->column, in_step, out + s->offset, out_step});
  }
}

// Whether a segment falls into dst on the first axes, so many.
template <class In>
bool Worker<In>::is_inside(const Segment& segment, const int64_t* shifts, int axes) const {
  for (int a = 0; a < axes; ++a) {
    const int64_t j = segment.at[a] + shifts[a];
    if (j < 0 || j >= j_count(a)) return false;
  }
  return true;
}

// Adds to the same positions of all segments that do not fall outside dst: those that follow each other along the axis
// before that of the segments at once.
template <class In>
void Worker<In>::add_lines(const int64_t* shifts, const Cell* in, int64_t length, Cell* out) const {
  const Segment* const end = segments_ + listed_.num_segments;
  if (geo_.vector_axis == 0) return add_segments(in, segments_, end, length, out);
  const int along = geo_.vector_axis - 1;
  int64_t count;
  for (const Segment* s = segments_; s != end; s += count) {
    const Axis& axis = geo_.axis[along];
    count = along == 0 ? end - s : std::min(end - s, axis.x_begin + axis.x_count - s->at[along]);
    const int64_t j = s->at[along] + shifts[along];
    const int64_t first = std::max<int64_t>(0, -j), last = std::min(count, j_count(along) - j);
    if (first < last && is_inside(*s, shifts, along)) add_segments(in, s + first, s + last, length, out);
  }
}

// Adds a row, some of whose products fall outside dst.
template <class In>
void Worker<In>::add_some(const Row& row, const Cell* in, Cell* sums) const {
  const int v = geo_.vector_axis;
  const int64_t all = j_count(v) * geo_.unit;
  const int64_t* shifts = shifts_ + (&row - rows_) * (v + 1);
  const Segment* const end = segments_ + listed_.num_segments;
  constexpr int64_t kLeastSegments = 4;  // of those that follow each other; fewer are as fast one by one
  if (listed_.even_length > 0 && (v <= 1 || geo_.axis[v - 1].x_count >= kLeastSegments)) {
    const int64_t first = segments_->at[v] + shifts[v];
    const int64_t from = std::max<int64_t>(0, -first), to = std::min(listed_.even_length, all - first);
    if (from < to) add_lines(shifts, in + from, to - from, sums + from);
    return;
  }
  for (const Segment* s = segments_; s != end; ++s) {
    const int64_t first = s->at[v] + shifts[v];
    const int64_t from = std::max<int64_t>(0, -first), to = std::min(s->length, all - first);
    if (from < to && is_inside(*s, shifts, v)) add_segments(in + from, s, s + 1, to - from, sums + from);
  }
}

// Adds the rows of a tile to the sums.
template <class In>
void Worker<In>::add(const Tile& tile, const Cell* products) const {
  const Segment* const end = segments_ + listed_.num_segments;
  for_each_row(tile, tile.row_begin, tile.row_end, [&](const Row& row, Cell* sums) {
    const Cell* in = products;
    products += pitch_;
    if (row.meets == Meets::kSome) {
      add_some(row, in, sums + row.offset);
    } else if (row.meets == Meets::kAll && listed_.even_length > 0) {
      add_segments(in, segments_, end, listed_.even_length, sums + row.offset);
    } else if (row.meets == Meets::kAll) {
      for (const Segment* s = segments_; s != end; ++s) add_segments(in, s, s + 1, s->length, sums + row.offset);
    }
  });
}

// Calls fn(tile) for the tiles of some columns and rows from which something reaches dst.
template <class In>
template <class Fn>
void Worker<In>::for_each_tile(int64_t begin, int64_t end, int64_t row_begin, int64_t row_end, Fn fn) {
  Tile tile;
  for (tile.begin = begin; tile.begin < end; tile.begin += tile.columns) {
    const int64_t index = (tile.begin - columns_.origin) / geo_.most_columns;
    tile.columns = std::min(columns_.origin + (index + 1) * geo_.most_columns, end) - tile.begin;
    for (tile.row_begin = row_begin; tile.row_begin < row_end; tile.row_begin = tile.row_end) {
      const int64_t panel = tile.row_begin / geo_.panel_height * geo_.panel_height;
      tile.row_end = std::min(panel + geo_.tile_rows, row_end);
      if (list(tile)) fn(tile);
    }
  }
}

template <class In>
void Worker<In>::add_all() {
  if (!geo_.direct) std::fill_n(sums_, part_.channels * geo_.channel_size, Cell());
  for_each_tile(columns_.begin, columns_.end, row_begin(), row_end(), [&](const Tile& tile) {
    const Cell* products = multiply(tile);
    if (!geo_.direct) add(tile, products);
  });
}

// Where the products of a tile are among those of all: [tile of columns][row][column].
template <class In>
auto Worker<In>::shared_products(const SharedPart& shared, const Tile& tile) const -> Cell* {
  const int64_t index = tile.begin / geo_.most_columns - columns_.begin / geo_.most_columns;
  return at<Cell>(shared.products, 0) + (index * (row_end() - row_begin()) + tile.row_begin - row_begin()) * pitch_;
}

template <class In>
void Worker<In>::multiply_range(int64_t range, const SharedPart& shared) {
  const SharedTiles tiles(plan_, geo_, part_);
  const int64_t columns = columns_.origin + (tiles.first_columns + range / tiles.num_rows) * geo_.most_columns;
  const int64_t rows = tiles.first_row + range % tiles.num_rows * geo_.shared_rows;
  for_each_tile(std::max(columns, columns_.begin), std::min(columns + geo_.most_columns, columns_.end),
                std::max(rows, row_begin()), std::min(rows + geo_.shared_rows, row_end()), [&](const Tile& tile) {
                  if (!geo_.direct) products_ = shared_products(shared, tile);
                  if (geo_.by_rows) {
                    transposed_ = at<Cell>(shared.slice, geo_.transposed) +
                                  tile.row_begin / geo_.panel_height * geo_.panel_height - tiles.first_row;
                  }
                  multiply(tile);
                });
}

template <class In>
void Worker<In>::add_shared(const SharedPart& shared) {
  if (geo_.direct) return;
  std::fill_n(sums_, part_.channels * geo_.channel_size, Cell());
  for_each_tile(columns_.begin, columns_.end, row_begin(), row_end(),
                [&](const Tile& tile) { add(tile, shared_products(shared, tile)); });
}

}  // namespace

template <class In>
void add_products(const Operands<In>& operands, const Part& part, char* slice, Held* held) {
  Worker<In>(operands, part, slice, slice, held).add_all();
}

int64_t num_shared_ranges(const Plan& plan, const Geometry& geo, const Part& part) {
  const SharedTiles tiles(plan, geo, part);
  return tiles.num_columns * tiles.num_rows;
}

template <class In>
void multiply_shared(const Operands<In>& operands, const Part& part, const SharedPart& shared, char* slice,
                     Ranges* ranges) {
  Held held;
  Worker<In> worker(operands, part, slice, shared.slice, &held);
  ranges->for_each_item([&](int64_t range) { worker.multiply_range(range, shared); });
}

template <class In>
void add_shared(const Operands<In>& operands, const Part& part, const SharedPart& shared) {
  Held held;
  Worker<In>(operands, part, shared.slice, shared.slice, &held).add_shared(shared);
}

#define INSTANTIATE(In)                                                                               \
  template void add_products(const Operands<In>&, const Part&, char*, Held*);                         \
  template void multiply_shared(const Operands<In>&, const Part&, const SharedPart&, char*, Ranges*); \
  template void add_shared(const Operands<In>&, const Part&, const SharedPart&);
ORTCONV_FLOAT_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace ortconv::kernels::gemm_col2im

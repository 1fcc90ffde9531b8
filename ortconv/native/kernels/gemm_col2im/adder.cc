#include "kernels/gemm_col2im/adder.h"

#include <algorithm>
#include <type_traits>

#include "kernels/gemm_col2im/add_short.h"

namespace ortconv::kernels::gemm_col2im {

// Adds to the same positions of the segments [begin, end).
template <class In>
void Adder<In>::add_segments(const Cell* in, const Segment* begin, const Segment* end, int64_t length,
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
bool Adder<In>::is_inside(const Segment& segment, const int64_t* shifts, int axes) const {
  for (int a = 0; a < axes; ++a) {
    const int64_t j = segment.at[a] + shifts[a];
    if (j < 0 || j >= j_count(a)) return false;
  }
  return true;
}

// Adds to the same positions of all segments that do not fall outside dst: those that follow each other along the axis
// before that of the segments at once.
template <class In>
void Adder<In>::add_lines(const int64_t* shifts, const Cell* in, int64_t length, Cell* out) const {
  if (geo_.vector_axis == 0) return add_segments(in, lists_.begin(), lists_.end(), length, out);
  const int along = geo_.vector_axis - 1;
  int64_t count;
  for (const Segment *s = lists_.begin(), *const end = lists_.end(); s != end; s += count) {
    const Axis& axis = geo_.axis[along];
    count = along == 0 ? end - s : std::min(end - s, axis.x_begin + axis.x_count - s->at[along]);
    const int64_t j = s->at[along] + shifts[along];
    const int64_t first = std::max<int64_t>(0, -j), last = std::min(count, j_count(along) - j);
    if (first < last && is_inside(*s, shifts, along)) add_segments(in, s + first, s + last, length, out);
  }
}

// Adds a row, some of whose products fall outside dst.
template <class In>
void Adder<In>::add_some(const Row& row, const Cell* in, Cell* sums) const {
  const int v = geo_.vector_axis;
  const int64_t all = j_count(v) * geo_.unit;
  const int64_t* shifts = lists_.shifts_of(row);
  constexpr int64_t kLeastSegments = 4;  // of those that follow each other; fewer are as fast one by one
  if (lists_.even_length() > 0 && (v <= 1 || geo_.axis[v - 1].x_count >= kLeastSegments)) {
    const int64_t first = lists_.begin()->at[v] + shifts[v];
    const int64_t from = std::max<int64_t>(0, -first), to = std::min(lists_.even_length(), all - first);
    if (from < to) add_lines(shifts, in + from, to - from, sums + from);
    return;
  }
  for (const Segment *s = lists_.begin(), *const end = lists_.end(); s != end; ++s) {
    const int64_t first = s->at[v] + shifts[v];
    const int64_t from = std::max<int64_t>(0, -first), to = std::min(s->length, all - first);
    if (from < to && is_inside(*s, shifts, v)) add_segments(in + from, s, s + 1, to - from, sums + from);
  }
}

template <class In>
void Adder<In>::add(const Tile& tile, const Cell* products) const {
  const int64_t pitch = im2col::pitch_of(geo_.tile_columns), even_length = lists_.even_length();
  lists_.for_each_row(tile, tile.row_begin, tile.row_end, [&](const Row& row, int64_t channel_sums) {
    const Cell* in = products;
    products += pitch;
    Cell* const sums = sums_ + channel_sums + row.offset;
    if (row.meets == Meets::kSome) {
      add_some(row, in, sums);
    } else if (row.meets == Meets::kAll && even_length > 0) {
      add_segments(in, lists_.begin(), lists_.end(), even_length, sums);
    } else if (row.meets == Meets::kAll) {
      for (const Segment* s = lists_.begin(); s != lists_.end(); ++s) add_segments(in, s, s + 1, s->length, sums);
    }
  });
}

template <class In>
void Adder<In>::sum(const Tile& tile, const Cell* products) const {
  if constexpr (std::is_same_v<Cell, float>) {
    const TileLists& lists = *lists_.of_plan();
    const int64_t taps = static_cast<int64_t>(lists.rows.size()), channel = tile.row_begin / taps;
    const int64_t pitch = im2col::pitch_of(geo_.tile_columns);
    operands_.kernels.sum_parts.run({lists.vectors.data(), static_cast<int64_t>(lists.vectors.size()),
                                     lists.parts.data(), (tile.row_end - tile.row_begin) / taps, products, taps * pitch,
                                     sums_ + (channel - part_.channel) * geo_.channel_size, geo_.channel_size});
  }
}

#define INSTANTIATE(In) template class Adder<In>;
ORTCONV_FLOAT_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace ortconv::kernels::gemm_col2im
